/** Tiers through the gate: identities inside bodies, counting on answers, requests that wait. */
import { setTimeout as sleep } from 'node:timers/promises';
import t, { type Test } from 'tap';
import { bench, FORM, JSON_TYPE, MULTIPART, multipart, until, type Bench } from '../support/case.js';
import type { Pair } from '../support/bytes.js';
import { exchange, RawConnection, request, type RequestSpec } from '../support/raw-client.js';

const OFF = ['ingress', 'api', 'login', 'passwordReset'].map((name) => ({ name, enabled: false }));
const only = (...policies: object[]): object => ({ policies: [...OFF, ...policies] });
const BY_USER = only({ name: 'user', match: { path: '/login' }, by: 'user', limit: '2/min', exact: true });

async function statusesOf({ gate }: Bench, specs: readonly RequestSpec[]): Promise<number[]> {
  const statuses: number[] = [];
  for (const spec of specs) statuses.push((await exchange(gate.port, request(spec))).status);
  return statuses;
}
const post = (type: Pair, body: Buffer | string): RequestSpec => ({
  method: 'POST',
  target: '/login',
  headers: [type],
  body: Buffer.from(body as string),
});
const parts = (...fields: readonly (readonly [name: string, value: string])[]): Buffer =>
  multipart(
    fields.map(([name, body]) => ({ head: [`Content-Disposition: form-data; name="${name}"`], body })),
  );
const repeat = (count: number, spec: (at: number) => RequestSpec): RequestSpec[] =>
  Array.from({ length: count }, (_, at) => spec(at));

t.test('a login by the username in its body is limited before the origin sees a byte', async (test) => {
  const at = await bench(test, { limits: BY_USER });
  const big = 'x'.repeat(400_000);
  const rows: [name: string, make: (at: number) => RequestSpec][] = [
    ['JSON', () => post(JSON_TYPE, '{"username":"json","password":"x"}')],
    ['JSON, written otherwise', (n) => post(JSON_TYPE, `{ "p":${n}, "us\\u0065rname" : " JSON2 " }`)],
    ['form', (n) => post(FORM, `password=${n}&username=form`)],
    ['form, encoded', () => post(FORM, 'user%6eame=f%6frm2')],
    ['multipart', (n) => post(MULTIPART, parts(['a', String(n)], ['username', 'parts']))],
    ['repeated with different values', (n) => post(FORM, `username=r${n}&username=victim`)],
    ['repeated in JSON', (n) => post(JSON_TYPE, `{"username":"q${n}","username":"victim"}`)],
    ['hidden behind many fields', (n) => post(FORM, `${many(400)}username=h${n}`)],
    ['missing', (n) => post(JSON_TYPE, `{"password":"${n}"}`)],
    ['nested elsewhere', (n) => post(JSON_TYPE, `{"username":{"first":"${n}"}}`)],
    ['empty body', () => ({ method: 'POST', target: '/login' })],
    ['a huge name', () => post(FORM, `username=${'n'.repeat(50_000)}`)],
    ['before a large file', (n) => post(MULTIPART, withFile([['username', 'file']], big + String(n)))],
  ];
  // Several kinds share a bucket: those that name nobody, and those that name more than one.
  const shared = new Map([
    ['repeated in JSON', 0],
    ['hidden behind many fields', 0],
    ['nested elsewhere', 0],
    ['empty body', 0],
  ]);
  for (const [name, make] of rows) {
    const before = at.up.completed;
    const statuses = await statusesOf(at, repeat(5, make));
    const passes = shared.get(name) ?? 2;
    const wanted = [...Array<number>(passes).fill(200), ...Array<number>(5 - passes).fill(429)];
    test.same(statuses, wanted, `${name}: ${passes} pass`);
    test.equal(at.up.completed - before, passes, `${name}: the origin saw no more`);
  }
  test.same(await statusesOf(at, [post(FORM, 'username=other')]), [200], 'others are not touched');
});
const many = (count: number): string => Array.from({ length: count }, (_, at) => `f${at}=1&`).join('');
const withFile = (fields: readonly (readonly [string, string])[], content: string): Buffer =>
  multipart([
    ...fields.map(([name, body]) => ({ head: [`Content-Disposition: form-data; name="${name}"`], body })),
    {
      head: [
        'Content-Disposition: form-data; name="up"; filename="a.bin"',
        'Content-Type: application/octet-stream',
      ],
      body: content,
    },
  ]);

t.test('a chunked login is limited too', async (test) => {
  const at = await bench(test, { limits: BY_USER });
  const body = '{"username":"chunk","password":"x"}';
  const statuses: number[] = [];
  for (let call = 0; call < 4; call++) {
    const connection = await RawConnection.open(at.gate.port);
    await connection.send(
      'POST /login HTTP/1.1\r\nHost: app.test\r\nContent-Type: application/json\r\n' +
        'Transfer-Encoding: chunked\r\n\r\n',
    );
    for (const piece of [body.slice(0, 5), body.slice(5, 14), body.slice(14)]) {
      await connection.send(`${piece.length.toString(16)}\r\n${piece}\r\n`);
      await sleep(5);
    }
    await connection.send('0\r\n\r\n');
    statuses.push((await connection.read()).status);
    connection.destroy();
  }
  test.same(statuses, [200, 200, 429, 429]);
  test.equal(at.up.completed, 2);
});

/** An origin where one password is right. */
async function loginBench(test: Test, policy: object, workers: number): Promise<Bench> {
  const at = await bench(test, {
    workers,
    limits: only({ name: 'fails', match: { path: '/login' }, limit: '5/min', ...policy }),
  });
  at.up.script = async (seen) => {
    await sleep(20);
    const status = seen.body.includes('right') ? '200 OK' : '401 Unauthorized';
    return `HTTP/1.1 ${status}\r\nContent-Length: 2\r\n\r\nok`;
  };
  return at;
}
const attempt = (password: string): RequestSpec =>
  post(JSON_TYPE, `{"username":"a","password":"${password}"}`);

t.test('only failed logins count', async (test) => {
  const at = await loginBench(test, { countOn: { status: 401 } }, 1);
  test.same(new Set(await statusesOf(at, repeat(20, () => attempt('right')))), new Set([200]));
  const statuses = await statusesOf(at, repeat(12, () => attempt('wrong')));
  test.same(statuses.slice(0, 5), [401, 401, 401, 401, 401]);
  test.ok(statuses.slice(7).every((status) => status === 429), 'refused from the limit on', { statuses });
  test.same(await statusesOf(at, [attempt('right')]), [429]);
});

t.test('exact: of 60 failures at once over four workers exactly five get through', async (test) => {
  const at = await loginBench(test, { exact: true, countOn: { status: ['4xx'] } }, 4);
  test.same(new Set(await statusesOf(at, repeat(20, () => attempt('right')))), new Set([200]), 'given back');
  const before = at.up.completed;
  const statuses = await Promise.all(
    repeat(60, () => attempt('wrong')).map(async (spec) => {
      return (await exchange(at.gate.port, request(spec))).status;
    }),
  );
  test.equal(statuses.filter((status) => status === 401).length, 5);
  test.equal(statuses.filter((status) => status === 429).length, 55);
  test.equal(at.up.completed - before, 5);
});

t.test('an origin that does not answer has not failed a login', async (test) => {
  const at = await loginBench(test, { exact: true, countOn: { status: ['4xx', '5xx'] } }, 1);
  at.up.script = (_, socket) => void socket.destroy();
  const statuses = await statusesOf(at, repeat(12, () => attempt('wrong')));
  const own = statuses.every((status) => status >= 502 && status <= 504);
  test.ok(own, 'the gate answers for it', { statuses });
});

const SHAPED = {
  name: 'shape',
  match: { path: '/slow' },
  limit: '10/s',
  algorithm: 'leaky-bucket',
  burst: 40,
  delayMax: '2s',
};

t.test('a shaping bucket makes requests wait, one by one, and says so', async (test) => {
  const at = await bench(test, { workers: 1, limits: only(SHAPED) });
  const arrived: number[] = [];
  at.up.script = () => {
    arrived.push(performance.now());
    return 'HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok';
  };
  const statuses = await Promise.all(
    Array.from({ length: 30 }, async (_, n) => {
      const body = n % 2 === 0 ? {} : { method: 'POST', headers: [FORM], body: 'a=1' };
      const bytes = request({ target: '/slow', ...body });
      return (await exchange(at.gate.port, bytes, { timeoutMs: 9_000 })).status;
    }),
  );
  const passed = statuses.filter((status) => status === 200).length;
  test.ok(passed >= 20 && passed <= 29, 'what would wait longer than two seconds is refused', { passed });
  test.equal(passed + statuses.filter((status) => status === 429).length, 30);
  const tookMs = arrived.at(-1)! - arrived[0]!;
  test.ok(tookMs > (passed - 1) * 100 - 150, 'never faster than ten a second', { tookMs, passed });
  const event = await at.gate.event(({ delayedMs }) => (delayedMs ?? 0) > 500);
  test.equal(event.action, 'throttle');
  test.match(event.reason, /waits \d+ ms/);
  test.ok(event.steps.some(({ findings }) => findings.some(({ id }) => id === 'DELAY-SHAPE')));
});

t.test('places to wait are bounded; who leaves frees one', async (test) => {
  const at = await bench(test, {
    workers: 1,
    limits: only({ ...SHAPED, limit: '30/min', delayMax: '10s' }),
    caps: { delayed: 2 },
  });
  const send = async (): Promise<RawConnection> => {
    const connection = await RawConnection.open(at.gate.port);
    await connection.send(request({ target: '/slow' }));
    return connection;
  };
  const first = await send();
  test.equal((await first.read()).status, 200, 'the first goes through');
  const waiting = [await send(), await send()];
  await sleep(200);
  const refused = await (await send()).read();
  test.equal(refused.status, 429, 'no third place');
  test.ok(Number(refused.header('retry-after')) >= 1);
  for (const connection of waiting) connection.destroy();
  const free = await until(async () => {
    const connection = await send();
    const answer = await connection.read({ timeoutMs: 150 }).catch(() => undefined);
    connection.destroy();
    return answer === undefined || answer.status !== 429;
  });
  test.ok(free, 'a place is free again');
});

t.test('a drain lets those who wait go', async (test) => {
  const at = await bench(test, { workers: 1, limits: only({ ...SHAPED, limit: '12/min', delayMax: '10s' }) });
  test.same(await statusesOf(at, [{ target: '/slow' }]), [200]);
  const waiting = exchange(at.gate.port, request({ target: '/slow' }), { timeoutMs: 9_000 });
  await sleep(300);
  const startMs = performance.now();
  at.gate.child.kill('SIGTERM');
  test.equal((await waiting).status, 200, 'served');
  test.ok(performance.now() - startMs < 3_000, 'without waiting out its five seconds');
});
