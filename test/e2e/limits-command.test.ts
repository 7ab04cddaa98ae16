/** `tidegate limits`: shows and sets back what the running gate counts for one identity. */
import { spawn } from 'node:child_process';
import { resolve } from 'node:path';
import t from 'tap';
import { bench, until, type Bench } from '../support/case.js';
import { fullConfig, ROOT, TOKEN } from '../support/gate.js';
import { exchange, request, type RequestSpec } from '../support/raw-client.js';
import { redisMissing, startRedis } from '../support/redis.js';

const policies = [
  { name: 'ingress', limit: '60/10s', algorithm: 'fixed-window', burstAlarm: '30/5s' },
  { name: 'api', match: { path: '/api/**' }, by: ['apiKey', 'session', 'ip'], limit: '10/min' },
  {
    name: 'login',
    match: { method: 'POST', path: '/api/login' },
    by: ['user', 'ip'],
    limit: '3/min',
    algorithm: 'sliding-log',
    exact: true,
  },
];
const SECRETS = ['sess-secret-4711', 'key-secret-0815'];

type Ended = Readonly<{ code: number | null; out: string; err: string }>;
type Shown = { limits: { policy: string; by: string; role: string; used: number; remaining: number }[] };

function limits({ gate }: Bench, flags: readonly string[], token = TOKEN): Promise<Ended> {
  const fromSource = process.env['TIDEGATE_FROM'] === 'src';
  const main = fromSource
    ? ['--import', 'tsx', resolve(ROOT, 'src/main.ts')]
    : [resolve(ROOT, 'dist/src/main.js')];
  const admin = ['--admin', `http://127.0.0.1:${gate.adminPort}`];
  return new Promise((done) => {
    const child = spawn(process.execPath, [...main, 'limits', '-c', gate.configFile, ...admin, ...flags], {
      cwd: ROOT,
      env: { PATH: process.env['PATH'], TIDEGATE_ADMIN_TOKEN: token },
      timeout: 30_000,
    });
    let out = '';
    let err = '';
    child.stdout.on('data', (part: Buffer) => (out += part.toString()));
    child.stderr.on('data', (part: Buffer) => (err += part.toString()));
    child.once('close', (code) => done({ code, out, err }));
  });
}
const send = ({ gate }: Bench, spec: RequestSpec) => exchange(gate.port, request(spec));
const rowOf = (ended: Ended, policy: string, by: string) =>
  (JSON.parse(ended.out) as Shown).limits.find(
    (row) => row.policy === policy && row.by === by && row.role === 'limit',
  );

t.test('what the gate has counted is shown, and can be set back', async (test) => {
  const at = await bench(test, { workers: 2, limits: { policies } });
  const [session, key] = SECRETS as [string, string];
  for (let call = 0; call < 12; call++)
    await send(at, { target: '/api/x', headers: [['Cookie', `sid=${session}`]] });
  for (let call = 0; call < 4; call++)
    await send(at, { target: '/api/x', headers: [['X-Api-Key', key]] });
  for (let call = 0; call < 4; call++)
    await send(at, {
      method: 'POST',
      target: '/api/login',
      headers: [['Content-Type', 'application/json']],
      body: '{"username":"Ann","password":"x"}',
    });

  const bySession = await limits(at, ['--session', session, '--json']);
  test.equal(bySession.code, 0, bySession.err);
  test.match(rowOf(bySession, 'api', 'session'), { used: 10, remaining: 0 });
  test.equal(rowOf(bySession, 'ingress', 'ip'), undefined, 'the address was not named');
  test.match(rowOf(await limits(at, ['--key', key, '--json']), 'api', 'apiKey'), { used: 4, remaining: 6 });
  const byUser = await limits(at, ['--user', 'ann', '--path', '/api/login', '--method', 'post', '--json']);
  test.match(rowOf(byUser, 'login', 'user'), { used: 3, remaining: 0 });
  const byPolicy = await limits(at, ['--user', 'ann', '--policy', 'login', '--json']);
  test.match(rowOf(byPolicy, 'login', 'user'), { used: 3 });

  const table = await limits(at, ['--ip', '127.0.0.1', '--session', session]);
  test.match(table.out, /api +session +10 of 10 in 1 min +0 +in .* refused for/);
  test.match(table.out, /ingress +ip +\d+ of 60 in 10 s/);

  const reset = await limits(at, ['--session', session, '--reset']);
  test.match(reset.out, /set back: 1/);
  test.match(rowOf(await limits(at, ['--session', session, '--json']), 'api', 'session'), { used: 0 });
  test.equal((await send(at, { target: '/api/x', headers: [['Cookie', `sid=${session}`]] })).status, 200);
  const audit = (): string | undefined => at.gate.lines.find((line) => line.includes('"audit":"limits.reset"'));
  test.ok(await until(() => audit() !== undefined), 'an audit line');
  test.match(audit(), /"actor":"[^"]+@[^"]+".*"of":\["session"\].*"policies":\["api"\]/);

  const said = [bySession, byUser, table, reset].map(({ out, err }) => out + err).join('');
  for (const secret of SECRETS) {
    test.notMatch(said, secret, 'the command prints no secret');
    test.notMatch(at.gate.lines.filter((line) => !line.includes('"steps"')).join('\n'), secret);
  }
});

t.test('what does not fit is told with what would', async (test) => {
  const at = await bench(test, { limits: { policies } });
  const rows: [name: string, flags: string[], token: string, said: RegExp][] = [
    ['an unknown policy', ['--ip', '::1', '--policy', 'no'], TOKEN, /named no\b.*api, login, passwordReset/s],
    ['no address', ['--ip', '1.2.3'], TOKEN, /"1\.2\.3", which is no address/],
    ['nobody', [], TOKEN, /name one of ip, session/],
    ['a wrong token', ['--ip', '1.2.3.4'], 'wrong', /Bearer token is needed/],
    ['no token', ['--ip', '1.2.3.4'], '', /ADMIN_TOKEN_MISSING/],
    ['no gate there', ['--ip', '1.2.3.4', '--admin', 'http://127.0.0.1:1'], TOKEN, /ADMIN_UNREACHABLE/],
  ];
  for (const [name, flags, token, said] of rows) {
    const ended = await limits(at, flags, token);
    test.equal(ended.code, 1, name);
    test.match(ended.err, said, name);
  }
});

t.test('with Redis it is Redis that is shown and set back', { skip: redisMissing }, async (test) => {
  const server = await startRedis();
  test.teardown(() => server.stop());
  const config = { redis: { url: `redis://127.0.0.1:${server.port}`, keyPrefix: 'shop:', deadline: '5s' } };
  const at = await bench(test, { ...config, workers: 2, limits: { policies } });
  const session = SECRETS[0]!;
  const asSession = { target: '/api/x', headers: [['Cookie', `sid=${session}`]] } satisfies RequestSpec;
  const statuses = new Set<number>();
  for (let call = 0; call < 30; call++) statuses.add((await send(at, asSession)).status);
  test.same([...statuses], [200, 429]);
  const asked = ['--session', session];
  const full = async (): Promise<boolean> =>
    rowOf(await limits(at, [...asked, '--json']), 'api', 'session')?.remaining === 0;
  test.ok(await until(full, 15_000), 'what both workers counted');
  test.match((await limits(at, [...asked, '--reset'])).out, /set back: 1/);
  test.match(rowOf(await limits(at, [...asked, '--json']), 'api', 'session'), { used: 0 });
  const passes = async (): Promise<boolean> => (await send(at, asSession)).status === 200;
  test.ok(await until(passes), 'and the workers follow');

  await server.stop();
  for (const flags of [asked, [...asked, '--reset']]) {
    const ended = await limits(at, flags);
    test.equal(ended.code, 1);
    test.match(ended.err, /cannot reach Redis at 127\.0\.0\.1:\d+: .*ECONNREFUSED.*check that it runs/s);
  }
  at.gate.writeConfig(fullConfig({ workers: 2, limits: { policies } }, at.up.url));
  at.gate.reload();
  const embedded = async (): Promise<boolean> => (await limits(at, asked)).code === 0;
  test.ok(await until(embedded, 15_000), 'a reload without Redis: the own counters again');
});
