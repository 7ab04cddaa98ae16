/** Public hard case D01: clients that leave, counts scaled down, kinds kept. */
import { setTimeout as sleep } from 'node:timers/promises';
import t from 'tap';
import { bench, passes, until, type Bench } from '../support/case.js';
import { ok, type Script } from '../support/echo-upstream.js';
import { RawConnection, request } from '../support/raw-client.js';

const endless: Script = (_seen, socket) => {
  socket.write(
    'HTTP/1.1 200 OK\r\nContent-Type: application/octet-stream\r\nTransfer-Encoding: chunked\r\n\r\n',
  );
  const block = Buffer.concat([Buffer.from('8000\r\n'), Buffer.alloc(0x8000, 120), Buffer.from('\r\n')]);
  const timer = setInterval(() => socket.write(block), 20);
  socket.once('close', () => clearInterval(timer));
  return undefined;
};

t.test('D01: client aborts', async (test) => {
  const at = await bench(test);
  at.up.keep = false;
  at.up.script = endless;
  await round(at, 40);
  test.ok(
    await until(() => at.up.open === 0, 1500),
    '(a) origin connections are gone after the clients reset',
    { open: at.up.open },
  );
  const memory = at.gate.workerMemoryMiB();
  for (let n = 0; n < 4; n++) {
    await round(at, 40);
    test.ok(await until(() => at.up.open === 0, 1500), `(a) round ${n + 2}: origin connections are gone`, {
      open: at.up.open,
    });
  }
  const grown = at.gate.workerMemoryMiB() - memory;
  test.ok(grown < 40, '(a) memory stays flat', { grown });
  const aborted = at.gate.events(({ clientAborted }) => clientAborted === true);
  test.ok(aborted.length >= 150, '(a) logged as client aborts', { got: aborted.length });
  test.ok(
    aborted.every(({ upstream, score }) => upstream?.error === undefined && score < 55),
    '(a) not as an upstream error',
  );
});

async function round({ gate }: Bench, clients: number): Promise<void> {
  await Promise.all(
    Array.from({ length: clients }, async () => {
      const connection = await RawConnection.open(gate.port);
      await connection.send(request({ target: '/endless' }));
      await connection.take(64 * 1024, 5000);
      connection.reset();
    }),
  );
}

t.test('D01 (b): client aborts during its own upload', async (test) => {
  const at = await bench(test);
  at.up.keep = false;
  for (let n = 0; n < 20; n++) {
    const connection = await RawConnection.open(at.gate.port);
    const head = request({
      method: 'PUT',
      headers: [
        ['Content-Type', 'application/octet-stream'],
        ['Content-Length', '50000000'],
      ],
    });
    await connection.send(Buffer.concat([head, Buffer.alloc(600_000, 7)]));
    connection.reset();
  }
  test.ok(await until(() => at.up.open === 0, 2000), 'origin connections are gone', { open: at.up.open });
  test.equal(at.up.completed, 0, 'the origin never saw a whole request');
  await passes(test, 'the gate serves on', at, {});
});

t.test('D01 (c): client aborts while stage 2 waits for its counters', async (test) => {
  const at = await bench(test, {
    limits: {
      policies: [
        { name: 'ingress', enabled: false },
        { name: 'api', match: { path: '/**' }, by: ['ip'], limit: '1000/min', exact: true },
      ],
    },
  });
  await passes(test, 'positive control', at, {});
  const clients = await Promise.all(Array.from({ length: 20 }, () => RawConnection.open(at.gate.port)));
  // One request each: every connection is with the worker by then.
  for (const client of clients) {
    await client.send(request());
    await client.read();
  }
  const before = at.up.completed;
  // The counters live in the supervisor: while it stands still, every check waits for its deadline.
  at.gate.child.kill('SIGSTOP');
  try {
    for (const client of clients) await client.send(request({ target: '/waits' }));
    await sleep(300);
    for (const client of clients) client.reset();
    await sleep(1200);
  } finally {
    at.gate.child.kill('SIGCONT');
  }
  const aborts = () => at.gate.events(({ clientAborted }) => clientAborted === true).length;
  test.ok(await until(() => aborts() === 20, 8000), 'every one is logged as a client abort', {
    aborts: aborts(),
  });
  test.equal(at.up.completed, before, 'none of them is sent on');
  const failed = at.gate.events(({ action }) => action === 'error').length;
  test.equal(failed, 0, 'none is logged as an error');
  await passes(test, 'the next client is served', at, {});
});

t.test('D01 (d): client aborts while queued for an origin connection', async (test) => {
  const at = await bench(test, { caps: { upstreamConnections: 2 }, timeouts: { queue: '1m' } });
  at.up.script = () => undefined;
  const clients = await Promise.all(Array.from({ length: 12 }, () => RawConnection.open(at.gate.port)));
  for (const [n, client] of clients.entries()) await client.send(request({ target: `/silent/${n}` }));
  test.ok(await until(() => at.up.completed === 2), 'two are at the origin');
  const inFlight = async (): Promise<number> => {
    const text = await (await at.gate.admin('/metrics')).text();
    return Number(/^tidegate_requests_in_flight\S* (\d+)/m.exec(text)?.[1]);
  };
  test.ok(await until(async () => (await inFlight()) === 12), 'ten wait for their turn');
  const served = new Set(at.up.requests.map(({ target }) => Number(target.split('/').at(-1))));
  for (const [n, client] of clients.entries()) if (!served.has(n)) client.reset();
  const aborts = () => at.gate.events(({ clientAborted }) => clientAborted === true).length;
  test.ok(await until(() => aborts() === 10), 'the gate saw those in the queue leave', { aborts: aborts() });
  for (const n of served) clients[n]!.reset();
  test.ok(await until(() => at.up.open === 0), 'origin connections are gone', { open: at.up.open });
  test.equal(at.up.completed, 2, 'queued requests of clients that left are never sent');
  at.up.script = undefined;
  await passes(test, 'the next client is served', at, {});
});

t.test('D01 (d): clients that leave at once, before they are accepted, free every place', async (test) => {
  const at = await bench(test, { caps: { upstreamConnections: 2 }, timeouts: { queue: '1m' } });
  at.up.script = () => undefined;
  for (let round = 0; round < 5; round++) {
    const clients = await Promise.all(Array.from({ length: 40 }, () => RawConnection.open(at.gate.port)));
    for (const client of clients) void client.send(request({ target: '/silent' }));
    for (const client of clients) client.reset();
  }
  const [first, second] = [request({ target: '/silent/1' }), request({ target: '/silent/2' })];
  const pipelined = await RawConnection.open(at.gate.port);
  await pipelined.send(Buffer.concat([first, second]));
  await until(() => at.up.open === 2, 1000);
  pipelined.reset();
  test.ok(await until(() => at.up.open === 0), 'origin connections are gone', { open: at.up.open });
  at.up.script = undefined;
  await passes(test, 'the next client is served', at, {});
});

t.test('D01 (e): a half-closed client still reads its answer', async (test) => {
  const at = await bench(test);
  at.up.script = async () => {
    await sleep(150);
    return ok('late but whole');
  };
  const connection = await RawConnection.open(at.gate.port);
  await connection.send(request());
  connection.end();
  const answer = await connection.read({ timeoutMs: 3000 });
  test.equal(answer.status, 200, 'answered');
  test.equal(answer.text(), 'late but whole', 'whole');
});

t.test('D01 (e): a client that has closed its side does not hold its place', async (test) => {
  const at = await bench(test, { timeouts: { halfClosed: '300ms' } });
  at.up.script = (seen, socket) => {
    if (seen.target === '/quiet') socket.write('HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n');
    return undefined;
  };
  const clients = await Promise.all(Array.from({ length: 20 }, () => RawConnection.open(at.gate.port)));
  for (const [n, client] of clients.entries())
    await client.send(request({ target: n % 2 === 0 ? '/silent' : '/quiet' }));
  test.ok(await until(() => at.up.completed === 20), 'all are at the origin');
  for (const client of clients) client.end();
  const free = await until(() => at.up.open === 0);
  test.ok(free, "the origin's connections are free again", { open: at.up.open });
  const aborts = () => at.gate.events(({ clientAborted }) => clientAborted === true).length;
  test.ok(await until(() => aborts() === 20), 'each is logged as a client abort', { aborts: aborts() });
  at.up.script = (_seen, socket) => {
    socket.write('HTTP/1.1 200 OK\r\nContent-Length: 15\r\n\r\n');
    let sent = 0;
    const timer = setInterval(() => {
      socket.write('x');
      if (++sent === 15) clearInterval(timer);
    }, 60);
    return undefined;
  };
  const reader = await RawConnection.open(at.gate.port);
  await reader.send(request());
  reader.end();
  const answer = await reader.read({ timeoutMs: 10_000 });
  test.equal(answer.text(), 'x'.repeat(15), 'one that reads on gets all of a slow answer');
  at.up.script = undefined;
  await passes(test, 'the next client is served', at, {});
});
