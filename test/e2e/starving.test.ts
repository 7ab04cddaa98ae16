/** One address that reads slowly, or leaves its bodies unfinished, must not keep the others out. */
import t from 'tap';
import { bench, FORM, JSON_TYPE, until, type Bench } from '../support/case.js';
import { makeCertificate, noCertificates } from '../support/certificate.js';
import { ok } from '../support/echo-upstream.js';
import { exchange, RawConnection, request, type RequestSpec } from '../support/raw-client.js';

const BIG = Buffer.alloc(12 * 1024 * 1024, 120);
const BINARY = ['Content-Type', 'application/octet-stream'] as const;
const TRUSTED = { trustedProxies: ['127.0.0.1/32'] };

const from = (ip: string, spec: RequestSpec = {}): Buffer =>
  request({ ...spec, headers: [['X-Forwarded-For', ip], ...(spec.headers ?? [])] });

async function gauge({ gate }: Bench, name: string): Promise<number> {
  const text = await (await gate.admin('/metrics')).text();
  return Number(new RegExp(`^tidegate_${name}\\S* (\\d+)`, 'm').exec(text)?.[1]);
}

/** Connections that ask and do not read. */
async function deaf({ gate }: Bench, count: number, bytes: Buffer): Promise<RawConnection[]> {
  return Promise.all(
    Array.from({ length: count }, async () => {
      const connection = await RawConnection.open(gate.port);
      connection.socket.pause();
      await connection.send(bytes);
      return connection;
    }),
  );
}

t.test('an address that reads nothing leaves room at the origin for the others', async (test) => {
  const caps = { upstreamConnections: 8, upstreamQueue: 16 };
  const at = await bench(test, { ...TRUSTED, caps, timeouts: { clientWrite: '1m', queue: '1500ms' } });
  at.up.keep = false;
  at.up.script = (seen) => (seen.target === '/big' ? ok(BIG) : undefined);
  const clients = await deaf(at, 30, from('192.0.2.1', { target: '/big' }));
  test.ok(await until(() => at.up.completed >= 6), 'it has its part of the connections');
  at.up.script = () => ok('fine');
  for (let n = 0; n < 4; n++) {
    const answer = await exchange(at.gate.port, from('192.0.2.2'), { timeoutMs: 10_000 });
    test.equal(answer.status, 200, 'another address is served meanwhile');
  }
  test.equal(at.up.completed, 6 + 4, 'it got no more than its part');
  const waited = (): number =>
    at.gate.events(({ status, reason }) => status === 503 && reason.includes('timeouts.queue')).length;
  test.ok(await until(() => waited() === 12, 10_000), 'those that waited too long got 503');
  test.ok(await until(async () => (await gauge(at, 'upstream_queue_timeouts')) === 12), 'and are counted');
  const answer = await exchange(at.gate.port, from('192.0.2.1'), { timeoutMs: 10_000 });
  test.equal(answer.status, 503);
  test.match(answer.header('retry-after'), /^[1-9]\d*$/, 'with Retry-After');
  clients.forEach((client) => client.reset());
});

t.test('hundreds of long polls do not stop the site', async (test) => {
  const at = await bench(test, { ...TRUSTED, workers: 1 });
  at.up.script = () => undefined;
  const polls = await Promise.all(
    Array.from({ length: 300 }, (_, n) => deaf(at, 1, from(`198.51.100.${n % 250}`, { target: '/poll' }))),
  );
  test.ok(await until(() => at.up.completed === 300, 20_000), 'all are at the origin');
  at.up.script = () => ok('fine');
  const answer = await exchange(at.gate.port, from('192.0.2.2'), { timeoutMs: 10_000 });
  test.equal(answer.status, 200, 'another client is served meanwhile');
  polls.flat().forEach((client) => client.reset());
});

t.test('over TLS too, a client that takes nothing is cut off', { skip: noCertificates }, async (test) => {
  const { cert, key } = makeCertificate();
  const listen = [{ address: '127.0.0.1:0', tls: { cert: 'cert.pem', key: 'key.pem' } }];
  const files = { 'cert.pem': cert, 'key.pem': key };
  const at = await bench(test, { listen, timeouts: { clientWrite: '400ms' } }, { files });
  at.up.keep = false;
  at.up.script = () => ok(BIG);
  const deafOne = await RawConnection.openTls(at.gate.port, { servername: 'app.test' });
  await deafOne.send(request({ target: '/big' }));
  deafOne.freeze();
  const cut = () => at.gate.events(({ error }) => error === 'the client took nothing for 400 ms');
  test.ok(await until(() => cut().length === 1, 10_000), 'its event says so');
  test.ok(await until(() => at.up.open === 0), "the origin's connection is free again");
  deafOne.destroy();
});

t.test('a client that takes nothing is cut off', async (test) => {
  const at = await bench(test, { timeouts: { clientWrite: '400ms' } });
  at.up.keep = false;
  at.up.script = () => ok(BIG);
  const clients = await deaf(at, 3, request({ target: '/big' }));
  const cut = () => at.gate.events(({ error }) => error === 'the client took nothing for 400 ms');
  test.ok(await until(() => cut().length === 3, 10_000), 'each is cut, and its event says so');
  test.ok(cut().every(({ clientAborted }) => clientAborted === true));
  test.ok(cut().every(({ upstream }) => upstream?.error === undefined), 'the origin is not blamed');
  test.ok(await until(() => at.up.open === 0), "the origin's connections are free again");
  test.ok(await until(async () => (await gauge(at, 'slow_readers_cut')) === 3), 'and it is counted');
  clients.forEach((client) => client.destroy());
  const slow = await RawConnection.open(at.gate.port);
  await slow.send(request({ target: '/big' }));
  const answer = await slow.read({ timeoutMs: 20_000 });
  test.equal(answer.bodyBytes, BIG.length, 'one that reads gets all of it');
});

t.test('one address may not have any number of requests under way', async (test) => {
  const caps = { perAddress: 5 };
  const at = await bench(test, {
    ...TRUSTED,
    caps,
    reputation: { allowlist: 'allow.txt' },
  }, { files: { 'allow.txt': '192.0.2.9\n' } });
  at.up.script = () => undefined;
  const clients = await deaf(at, 5, from('192.0.2.1'));
  await deaf(at, 8, from('192.0.2.9'));
  test.ok(await until(() => at.up.completed === 13), 'five are under way, and more for an allowlisted one');
  const answer = await exchange(at.gate.port, from('192.0.2.1'), { timeoutMs: 10_000 });
  test.equal(answer.status, 429);
  test.match(answer.header('retry-after'), /^[1-9]/);
  at.up.script = () => ok('fine');
  const other = await exchange(at.gate.port, from('192.0.2.2'), { timeoutMs: 10_000 });
  test.equal(other.status, 200, 'another address is served');
  test.ok(await until(async () => (await gauge(at, 'requests_refused_address')) === 1), 'it is counted');
  clients.forEach((client) => client.reset());
});

t.test('tunnels of one address are counted apart from its requests', async (test) => {
  const caps = { tunnelsPerAddress: 3, perAddress: 2 };
  const at = await bench(test, { ...TRUSTED, caps });
  at.up.onHead = () =>
    'HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n';
  const headers = [
    ['Connection', 'Upgrade'],
    ['Upgrade', 'websocket'],
    ['Sec-WebSocket-Version', '13'],
    ['Sec-WebSocket-Key', 'dGhlIHNhbXBsZSBub25jZQ=='],
  ] as const;
  const bytes = from('192.0.2.1', { headers });
  const open = await deaf(at, 3, bytes);
  test.ok(await until(async () => (await gauge(at, 'requests_in_flight')) === 3), 'three are open');
  const fourth = await exchange(at.gate.port, bytes, { timeoutMs: 10_000 });
  test.equal(fourth.status, 429, 'one more is refused');
  const other = await deaf(at, 1, from('192.0.2.2', { headers }));
  test.ok(await until(async () => (await gauge(at, 'requests_in_flight')) === 4), 'not for another address');
  at.up.onHead = undefined;
  const answer = await exchange(at.gate.port, from('192.0.2.1'), { timeoutMs: 10_000 });
  test.equal(answer.status, 200, 'its requests go on');
  for (const client of [...open, ...other]) client.reset();
  test.ok(await until(async () => (await gauge(at, 'requests_in_flight')) === 0), 'and all are given back');
});

t.test('unfinished bodies of one address leave room for the bodies of others', async (test) => {
  const body = { structured: '1MB', heldTotal: '4MB', heldPerAddress: '2MB' };
  const at = await bench(test, { ...TRUSTED, body });
  const headers = [JSON_TYPE, ['Content-Length', '1000000']] as const;
  const part = from('192.0.2.1', { method: 'POST', framing: 'none', headers });
  const unfinished = Buffer.concat([part, Buffer.from(`["${'a'.repeat(600_000)}`)]);
  const clients = await deaf(at, 8, unfinished);
  const refused = () => at.gate.events(({ status }) => status === 503).length;
  test.ok(await until(() => refused() === 5, 10_000), 'what goes beyond its part is cut off');
  test.ok((await gauge(at, 'held_body_bytes')) <= 2 * 1024 * 1024, 'so much is held');
  const answer = await exchange(
    at.gate.port,
    from('192.0.2.2', { body: JSON.stringify(['b'.repeat(900_000)]), headers: [JSON_TYPE] }),
    { timeoutMs: 10_000 },
  );
  test.equal(answer.status, 200, 'another address posts');
  const small = { body: '{"a":1}', headers: [JSON_TYPE] } as const;
  const own = await exchange(at.gate.port, from('192.0.2.1', small), { timeoutMs: 10_000 });
  test.equal(own.status, 200, 'and so does the same one, when it is little');
  const answers = await Promise.all(
    clients.map((client) => client.read({ timeoutMs: 1000 }).catch(() => undefined)),
  );
  const cut = answers.find((one) => one?.status === 503);
  test.match(cut?.header('retry-after'), /^[1-9]/, 'whoever is cut off is told when to come back');
  clients.forEach((client) => client.reset());
  test.ok(await until(async () => (await gauge(at, 'held_body_bytes')) === 0), 'nothing is left');
});

t.test('a held body that trickles in, or takes too long, ends with 408', async (test) => {
  const at = await bench(test, { timeouts: { body: '500ms' }, body: { minRate: '1KB' } });
  const head = request({ method: 'POST', framing: 'none', headers: [JSON_TYPE, ['Content-Length', '5000']] });
  const connection = await RawConnection.open(at.gate.port);
  await connection.send(Buffer.concat([head, Buffer.from('["')]));
  const timer = setInterval(() => void connection.send('a'), 50);
  const answer = await connection.read({ timeoutMs: 10_000 });
  clearInterval(timer);
  test.equal(answer.status, 408, 'a byte now and then does not keep it alive');
  connection.destroy();
  const late = await bench(test, { timeouts: { bodyHeld: '500ms' } });
  const second = await RawConnection.open(late.gate.port);
  await second.send(Buffer.concat([head, Buffer.from('["')]));
  const feeding = setInterval(() => void second.send('a'.repeat(50)), 50);
  test.equal((await second.read({ timeoutMs: 10_000 })).status, 408, 'nor does a steady one for ever');
  clearInterval(feeding);
  second.destroy();
});

t.test('whatever way requests end, nothing stays held or under way', async (test) => {
  const at = await bench(test, { timeouts: { body: '300ms', response: '400ms', clientWrite: '400ms' } });
  at.up.keep = false;
  at.up.script = (seen, socket) => {
    if (seen.target === '/silent') return undefined;
    if (seen.target === '/broken') return void socket.destroy();
    return ok(seen.target === '/big' ? BIG : 'fine');
  };
  const endings = hostile();
  for (let round = 0; round < 200 / 40; round++) {
    const clients = await Promise.all(
      Array.from({ length: 40 }, async (_, n) => {
        const connection = await RawConnection.open(at.gate.port);
        const [bytes, leave] = endings[n % endings.length]!;
        if (bytes.includes('/big')) connection.socket.pause();
        await connection.send(bytes);
        if (leave) setTimeout(() => connection.reset(), (n % 5) * 10);
        return connection;
      }),
    );
    await Promise.all(clients.map((client) => client.closes(100)));
    clients.forEach((client) => client.reset());
  }
  const zero = async (): Promise<boolean> =>
    (await gauge(at, 'held_body_bytes')) === 0 && (await gauge(at, 'requests_in_flight')) === 0;
  test.ok(await until(zero, 15_000), 'all counts are back at nothing');
  test.ok(await until(() => at.up.open === 0), 'no origin connection is left');
  test.equal((await exchange(at.gate.port, request())).status, 200, 'and the next client is served');
});

/** What is sent, and whether the client then leaves. */
function hostile(): [Buffer, boolean][] {
  const coded = (coding: string, body: string, length = body.length): Buffer =>
    Buffer.concat([
      request({
        method: 'POST',
        framing: 'none',
        headers: [FORM, ['Content-Encoding', coding], ['Content-Length', String(length)]],
      }),
      Buffer.from(body, 'latin1'),
    ]);
  const gzipHead = '\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\x03';
  const sent: Buffer[] = [
    coded('gzip', gzipHead),
    coded('gzip', gzipHead, 500),
    coded('gzip', 'no gzip at all'),
    coded('br', '\x01\x02\x03'),
    coded('deflate', 'x'.repeat(300), 9000),
    request({ body: 'a=1&b=2', headers: [FORM], target: '/silent' }),
    request({ body: 'a=1&b=2', headers: [FORM], target: '/broken' }),
    request({ body: 'a'.repeat(400_000), headers: [BINARY], target: '/silent' }),
    request({ body: '{"a":', headers: [JSON_TYPE] }),
    request({ body: "q=' or 1=1 --", headers: [FORM] }),
    request({ target: '/big' }),
    request({ method: 'POST', framing: 'chunked', headers: [JSON_TYPE] }),
    Buffer.concat([request({ body: 'a=1', headers: [FORM] }), request({ target: '/silent' })]),
  ];
  return sent.flatMap((bytes): [Buffer, boolean][] => [
    [bytes, false],
    [bytes, true],
  ]);
}
