/** Public hard cases about operation (H03 metric series, H04 log sink), scaled down, kinds kept. */
import { readFileSync, renameSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import t from 'tap';
import { bench, passes, SQLI, type Bench } from '../support/case.js';
import { exchange, RawConnection, request, type RequestSpec } from '../support/raw-client.js';

/** `count` requests, kept alive over a few connections; answers are read but not looked at. */
async function flood({ gate }: Bench, count: number, spec: (n: number) => RequestSpec): Promise<void> {
  let next = 0;
  const client = async (): Promise<void> => {
    let connection = await RawConnection.open(gate.port);
    while (next < count) {
      const mine = spec(next++);
      await connection.send(request(mine));
      const answer = await connection.read({ timeoutMs: 5000, headOnly: mine.method === 'HEAD' });
      if (answer.closed || answer.status === 0 || answer.header('connection') === 'close') {
        connection.destroy();
        connection = await RawConnection.open(gate.port);
      }
    }
    connection.destroy();
  };
  await Promise.all(Array.from({ length: 16 }, client));
}

const seriesOf = (text: string): number =>
  text.split('\n').filter((line) => line !== '' && !line.startsWith('#')).length;

t.test('H03: metric series stay under a cap', async (test) => {
  const at = await bench(test, { workers: 2, trustedProxies: ['127.0.0.1'] });
  at.up.keep = false;
  const hostile = (n: number): RequestSpec => ({
    method: n % 7 === 0 ? `FOO${n}` : 'GET',
    target: `/p${n}/x?y=${n}`,
    host: n % 5 === 0 ? `h${n}.test` : 'app.test',
    headers: [
      ['User-Agent', `Mozilla/5.0 agent ${n}`],
      ['X-Forwarded-For', `11.${(n >> 16) & 255}.${(n >> 8) & 255}.${n & 255}`],
    ],
  });
  await flood(at, 300, hostile);
  const early = seriesOf(await (await at.gate.admin('/metrics')).text());
  await flood(at, 5000, (n) => hostile(n + 300));
  const from = Date.now();
  const text = await (await at.gate.admin('/metrics')).text();
  const took = Date.now() - from;
  const late = seriesOf(text);
  test.ok(late < 1500, 'under a fixed cap', { late });
  test.ok(late - early < 100, 'not growing with what clients choose', { early, late });
  test.ok(took < 500, 'a scrape is quick', { took });
  for (const word of ['FOO7', '/p77/', 'h55.test', 'agent 12'])
    test.notOk(text.includes(word), `no label from the client: ${word}`);
  const total = [...text.matchAll(/^tidegate_requests_total(?:\{[^}]*\})? (\d+)/gm)].reduce(
    (sum, [, n]) => sum + Number(n),
    0,
  );
  test.ok(total >= 4000, "the workers' counters are summed", { total });
});

t.test('H03: counters survive a worker that is replaced', async (test) => {
  const at = await bench(test, { workers: 2 });
  const total = async (): Promise<number> => {
    const text = await (await at.gate.admin('/metrics')).text();
    return [...text.matchAll(/^tidegate_requests_total(?:\{[^}]*\})? (\d+)/gm)].reduce(
      (sum, [, n]) => sum + Number(n),
      0,
    );
  };
  await flood(at, 200, (n) => ({ target: `/${n}` }));
  await sleep(300);
  const before = await total();
  const [worker] = at.gate.workers();
  if (worker !== undefined) process.kill(worker, 'SIGKILL');
  await sleep(2500);
  await flood(at, 100, (n) => ({ target: `/b${n}` }));
  await sleep(300);
  const after = await total();
  test.ok(before >= 200, 'counted', { before });
  test.ok(after >= before && after <= before + 120, 'no counter falls or doubles', { before, after });
});

t.test('H04: hostile text and secrets in the log', async (test) => {
  const at = await bench(test, { log: { file: 'gate.log' } });
  const file = join(at.gate.folder, 'gate.log');
  const esc = '\x1b[31m';
  await exchange(at.gate.port, request({ target: '/a%0a%7B%22decision%22%3A%22allow%22%7D' }));
  await exchange(
    at.gate.port,
    request({ headers: [['User-Agent', `Mozilla/5.0 ${esc}\xe2\x80\xa8\xed\xa0\x80`]] }),
  );
  await exchange(at.gate.port, request({ headers: [['X-Long', 'a'.repeat(64 * 1024)]] }));
  await exchange(
    at.gate.port,
    request({ target: `/long/${'b'.repeat(9000)}?q=${encodeURIComponent(SQLI)}` }),
  );
  await exchange(
    at.gate.port,
    request({
      target: '/login?token=QUERYSECRET1&access_token=QUERYSECRET2',
      headers: [
        ['Authorization', 'Bearer AUTHSECRET'],
        ['Cookie', 'sid=COOKIESECRET'],
        ['Content-Type', 'application/json'],
      ],
      body: '{"username":"ann","password":"BODYSECRET \' or 1=1 --"}',
    }),
  );
  await sleep(700);
  const text = readFileSync(file, 'utf8');
  const lines = text.trim().split('\n');
  const valid = lines.every((line) => {
    try {
      return typeof JSON.parse(line) === 'object';
    } catch {
      return false;
    }
  });
  test.ok(valid, '(d) one event is one valid line');
  test.ok(lines.filter((line) => line.includes('"steps"')).length >= 4, '(d) every decision is there', {
    lines: lines.length,
  });
  test.notOk(text.includes('\x1b'), '(d) no control characters');
  test.notOk(/"decision":"allow"/.test(text), '(d) no forged field');
  test.ok(
    lines.every((line) => line.length < 32 * 1024),
    '(d) long fields are cut',
  );
  const cut = lines.find((line) => line.includes('/long/bbb'));
  test.match(cut ?? '', /"action":"block"/, '(d) the decision is never cut');
  for (const secret of ['QUERYSECRET1', 'QUERYSECRET2', 'AUTHSECRET', 'COOKIESECRET', 'BODYSECRET']) {
    test.notOk(text.includes(secret), `(e) masked: ${secret}`);
  }
});

t.test('H04 (f): the file is rotated under us', async (test) => {
  const at = await bench(test, { log: { file: 'gate.log' } });
  const file = join(at.gate.folder, 'gate.log');
  await exchange(at.gate.port, request({ target: '/before' }));
  await sleep(400);
  renameSync(file, `${file}.1`);
  let found = false;
  for (let n = 0; n < 40 && !found; n++) {
    await exchange(at.gate.port, request({ target: '/after' }));
    await sleep(250);
    found =
      statSync(file, { throwIfNoEntry: false }) !== undefined &&
      readFileSync(file, 'utf8').includes('/after');
  }
  test.ok(found, 'events go to a new file of the old name');
});

t.test('H04 (a): a log that cannot be written', async (test) => {
  const at = await bench(test, { log: { file: '/dev/full' } });
  await flood(at, 500, (n) => ({ target: `/${n}` }));
  await passes(test, 'traffic goes on', at, {});
  await sleep(300);
  const text = await (await at.gate.admin('/metrics')).text();
  const dropped = [...text.matchAll(/^tidegate_\w*(?:drop|lost)\w*(?:\{[^}]*\})? (\d+)/gm)].reduce(
    (sum, [, n]) => sum + Number(n),
    0,
  );
  test.ok(dropped > 0, 'losses are counted', { dropped });
  test.equal(at.gate.exit, undefined, 'no crash');
});

t.test('H04 (c): the reader of standard output is slow', async (test) => {
  const at = await bench(test);
  at.gate.child.stdout?.pause();
  const before = at.gate.workerMemoryMiB();
  await flood(at, 4000, (n) => ({ target: `/${'x'.repeat(600)}${n}` }));
  await passes(test, 'traffic goes on', at, {});
  const grown = at.gate.workerMemoryMiB() - before;
  test.ok(grown < 120, 'memory stays bounded', { grown });
  at.gate.child.stdout?.resume();
});

t.test('H04 (b): the reader of standard output is gone', async (test) => {
  const at = await bench(test);
  at.gate.child.stdout?.destroy();
  await flood(at, 300, (n) => ({ target: `/${n}` }));
  await sleep(300);
  await passes(test, 'traffic goes on', at, {});
  test.equal(at.gate.exit, undefined, 'no crash');
});
