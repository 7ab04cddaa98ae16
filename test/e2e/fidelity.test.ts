/**
 * What the client sends is what the origin gets, and the other way round, byte for byte, without holding it
 * all.
 */
import { randomBytes } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { gzipSync } from 'node:zlib';
import t from 'tap';
import { bench, passes, until } from '../support/case.js';
import { chunked, type Pair } from '../support/bytes.js';
import { ok } from '../support/echo-upstream.js';
import { exchange, RawConnection, request } from '../support/raw-client.js';

const OCTETS = ['Content-Type', 'application/octet-stream'] as const;
const MIB = 1024 * 1024;

t.test('request bodies arrive as sent, in both framings', async (test) => {
  const at = await bench(test);
  for (const size of [1, 1000, 65_536, 300_000, 2_000_000]) {
    const body = randomBytes(size);
    for (const framing of ['length', 'chunked'] as const) {
      await passes(test, `${size} bytes, ${framing}`, at, { headers: [OCTETS], body, framing });
      const seen = at.up.last;
      if (framing === 'length')
        test.equal(seen?.header('content-length'), String(size), 'fixed length stays fixed');
    }
  }
});

t.test('request headers keep case, order and duplicates', async (test) => {
  const at = await bench(test);
  const headers: Pair[] = [
    ['X-ZULU', 'last letter first'],
    ['x-alpha', '1'],
    ['X-Alpha', '2'],
    ['x-ALPHA', 'three, four'],
    ['X-Latin', 'caf\xe9'],
    ['ETag-Like', '"a"'],
  ];
  await passes(test, 'a request', at, { headers });
  const names = new Set(headers.map(([name]) => name));
  test.strictSame(
    at.up.last?.headers.filter(([name]) => names.has(name)),
    headers,
    'as sent',
  );
  test.strictSame(at.up.last?.all('host'), ['app.test'], 'one Host');
});

t.test('targets arrive as sent', async (test) => {
  const at = await bench(test);
  for (const target of [
    '/a%20b/%C3%A9?x=1&x=2&y=%2B+',
    '/a;v=1/b?',
    '/?a[]=1&b=%5B%5D',
    '/~u/$x/(y)/!z',
    '/a/./b',
  ]) {
    await passes(test, target, at, { target });
    test.equal(at.up.last?.target, target, `${target}: unchanged`);
  }
});

t.test('answers keep status text, header case, order, duplicates and trailers', async (test) => {
  const at = await bench(test);
  const lines = [
    'X-ZULU: z',
    'x-alpha: 1',
    'Set-Cookie: a=1',
    'X-Alpha: 2',
    'set-cookie: b=2; Path=/',
    'X-Latin: caf\xe9',
  ];
  at.up.script = () =>
    Buffer.from(
      `HTTP/1.1 218 This Is Fine\r\n${lines.join('\r\n')}\r\nContent-Length: 2\r\n\r\nhi`,
      'latin1',
    );
  const answer = await exchange(at.gate.port, request());
  test.equal(answer.status, 218, 'status');
  test.equal(answer.statusText, 'This Is Fine', 'status text');
  const names = new Set(lines.map((line) => line.split(':')[0]));
  const got = answer.headers.filter(([name]) => names.has(name)).map(([name, value]) => `${name}: ${value}`);
  test.strictSame(got, lines, 'headers');
  test.equal(answer.text(), 'hi', 'body');
  at.up.script = () =>
    Buffer.concat([
      Buffer.from('HTTP/1.1 200 OK\r\nTrailer: X-Sum\r\nTransfer-Encoding: chunked\r\n\r\n'),
      chunked('hello world', 4, 'X-Sum: 42\r\n'),
    ]);
  const trailed = await exchange(at.gate.port, request());
  test.equal(trailed.text(), 'hello world', 'chunked body');
  test.strictSame(trailed.trailers, [['X-Sum', '42']], 'trailers of the origin');
});

t.test('gzip answers pass untouched; close-delimited answers arrive whole', async (test) => {
  const at = await bench(test);
  const zipped = gzipSync('hello '.repeat(5000));
  at.up.script = () => ok(zipped, 'text/html', 'Content-Encoding: gzip\r\n');
  const answer = await exchange(at.gate.port, request({ headers: [['Accept-Encoding', 'gzip']] }));
  test.equal(answer.header('content-encoding'), 'gzip', 'coding');
  test.ok(answer.body.equals(zipped), 'bytes');
  at.up.script = (_seen, socket) => {
    socket.end('HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n\r\nuntil the end');
    return undefined;
  };
  test.equal((await exchange(at.gate.port, request())).text(), 'until the end', 'close-delimited');
});

t.test('a WebSocket tunnels both ways', async (test) => {
  const at = await bench(test);
  at.up.onHead = (_seen, socket) => {
    socket.write(
      'HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nX-Own: 1\r\n\r\n',
    );
    socket.on('data', (part: Buffer) => socket.write(part));
    return undefined;
  };
  const connection = await RawConnection.open(at.gate.port);
  const upgrade: Pair[] = [
    ['Connection', 'Upgrade'],
    ['Upgrade', 'websocket'],
    ['Sec-WebSocket-Version', '13'],
    ['Sec-WebSocket-Key', 'dGhlIHNhbXBsZSBub25jZQ=='],
  ];
  await connection.send(request({ target: '/ws', headers: upgrade }));
  const answer = await connection.read();
  test.equal(answer.status, 101, 'switched');
  test.equal(answer.header('x-own'), '1', "the origin's headers come along");
  for (const message of [randomBytes(10), randomBytes(100_000)]) {
    await connection.send(message);
    let back: Buffer = Buffer.alloc(0);
    while (back.length < message.length) {
      const more = await connection.take(1);
      if (more.length === 0) break;
      back = Buffer.concat([back, more]);
    }
    test.ok(back.equals(message), `${message.length} bytes echo`);
  }
  connection.destroy();
  test.ok(await until(() => at.up.open === 0, 1500), 'both ends close');
});

t.test('a client that leaves takes the origin request along', async (test) => {
  const at = await bench(test);
  at.up.script = () => undefined;
  const connection = await RawConnection.open(at.gate.port);
  await connection.send(request({ target: '/left' }));
  await until(() => at.up.completed === 1);
  connection.reset();
  test.ok(await until(() => at.up.open === 0, 1000), 'within a second');
  const event = await at.gate.event(({ path }) => path === '/left');
  test.equal(event.clientAborted, true, 'logged as a client abort');
});

t.test('an origin that resets in mid-body is not passed off as a whole answer', async (test) => {
  const at = await bench(test);
  const starts = ['Content-Length: 1000\r\n\r\nhello', 'Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n'];
  for (const start of starts) {
    at.up.script = async (_seen, socket) => {
      socket.write(`HTTP/1.1 200 OK\r\n${start}`);
      await sleep(50);
      socket.resetAndDestroy();
      return undefined;
    };
    const answer = await exchange(at.gate.port, request(), { timeoutMs: 3000 });
    test.notOk(answer.complete, `${start.slice(0, 17)}: incomplete`, { status: answer.status });
    test.ok(answer.closed, `${start.slice(0, 17)}: closed`);
  }
  at.up.script = (_seen, socket) => {
    socket.resetAndDestroy();
    return undefined;
  };
  test.equal((await exchange(at.gate.port, request({ body: 'x' }))).status, 502, 'before an answer: 502');
});

t.test('an origin that is away: 502; one that stays silent: 504', async (test) => {
  const at = await bench(test, { timeouts: { response: '400ms' } });
  at.up.script = () => undefined;
  test.equal((await exchange(at.gate.port, request({ body: 'x' }))).status, 504, 'silent');
  await at.up.close();
  test.equal((await exchange(at.gate.port, request())).status, 502, 'away');
});

t.test('Expect: 100-continue', async (test) => {
  const at = await bench(test);
  const connection = await RawConnection.open(at.gate.port);
  const head = request({
    method: 'POST',
    headers: [OCTETS, ['Content-Length', '5'], ['Expect', '100-continue']],
  });
  await connection.send(head);
  const interim = await connection.read({ interim: true, timeoutMs: 2000 });
  test.equal(interim.status, 100, 'the client is told to go on');
  await connection.send('hello');
  const answer = await connection.read();
  test.equal(answer.status, 200, 'answered');
  test.equal(at.up.last?.body.toString(), 'hello', 'the body arrives');
  connection.destroy();
  const unknown = await exchange(
    at.gate.port,
    request({ headers: [OCTETS, ['Expect', 'miracles']], body: 'hello' }),
  );
  test.ok([417, 400, 200].includes(unknown.status), 'an unknown expectation', { got: unknown.status });
});

t.test('an origin that answers early, in mid-upload', async (test) => {
  const at = await bench(test);
  at.up.onHead = () => 'HTTP/1.1 413 Too Large\r\nContent-Length: 5\r\nConnection: close\r\n\r\nlarge';
  const connection = await RawConnection.open(at.gate.port);
  await connection.send(request({ method: 'PUT', headers: [OCTETS, ['Content-Length', String(50 * MIB)]] }));
  const sending = (async () => {
    for (let n = 0; n < 50 && !connection.closed; n++) {
      await connection.send(Buffer.alloc(MIB));
      await sleep(2);
    }
  })();
  const answer = await connection.read({ timeoutMs: 8000 });
  test.equal(answer.status, 413, 'the early answer reaches the client');
  test.equal(answer.text(), 'large', 'whole');
  connection.destroy();
  await sending;
});

t.test('requests on one connection, one after the other and pipelined', async (test) => {
  const at = await bench(test);
  at.up.script = (seen) => ok(seen.target);
  const connection = await RawConnection.open(at.gate.port);
  for (const target of ['/1', '/2', '/3']) {
    await connection.send(request({ target }));
    test.equal((await connection.read()).text(), target, target);
  }
  await connection.send(Buffer.concat(['/4', '/5', '/6'].map((target) => request({ target }))));
  for (const target of ['/4', '/5', '/6'])
    test.equal((await connection.read()).text(), target, `pipelined ${target}`);
  connection.destroy();
});

t.test('hop-by-hop headers stay on their hop', async (test) => {
  const at = await bench(test);
  await passes(test, 'a request', at, {
    headers: [
      ['Connection', 'close, X-Hop'],
      ['X-Hop', '1'],
      ['Keep-Alive', 'timeout=5'],
    ],
  });
  test.equal(at.up.last?.header('x-hop'), undefined, 'named in Connection');
  test.equal(at.up.last?.header('keep-alive'), undefined, 'Keep-Alive');
});
