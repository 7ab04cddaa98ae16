/**
 * Policies that do more than count, through a gate and a real Redis: counted on the answer, shaped by delay,
 * from the hot-key cache; and what a reload keeps and takes anew.
 */
import { execFileSync } from 'node:child_process';
import { copyFileSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import t, { type Test } from 'tap';
import { bench, until, type Bench } from '../support/case.js';
import { fullConfig } from '../support/gate.js';
import { exchange, request, type RequestSpec } from '../support/raw-client.js';
import { freePort, redisMissing, startRedis } from '../support/redis.js';

const options = { skip: redisMissing };
const OFF = [
  { name: 'ingress', enabled: false },
  { name: 'api', enabled: false },
  { name: 'login', enabled: false },
];

async function redis(t: Test, extra: readonly string[] = []) {
  const server = await startRedis(extra);
  t.teardown(() => server.stop());
  return server;
}
const sectionFor = (port: number) => ({ url: `redis://127.0.0.1:${port}`, deadline: '5s' });
const send = async ({ gate }: Bench, spec: RequestSpec): Promise<number> =>
  (await exchange(gate.port, request(spec), { timeoutMs: 20_000 })).status;

async function statuses(at: Bench, spec: RequestSpec, count: number): Promise<Record<number, number>> {
  const seen: Record<number, number> = {};
  for (let call = 0; call < count; call++) {
    const status = await send(at, spec);
    seen[status] = (seen[status] ?? 0) + 1;
  }
  return seen;
}

/** Of the metrics page; undefined where it is not there. */
async function metric({ gate }: Bench, name: string): Promise<number | undefined> {
  const text = await (await gate.admin('/metrics')).text();
  const found = new RegExp(`^tidegate_${name} (\\S+)$`, 'm').exec(text)?.[1];
  return found === undefined ? undefined : Number(found);
}

t.test('failed logins are counted on the answer, also those at once', options, async (test) => {
  const server = await redis(test);
  const countOn = { status: 401 };
  const login = { name: 'login', match: { path: '/login' }, limit: '3/h', algorithm: 'sliding-log' };
  const policies = [...OFF.slice(0, 2), { ...login, exact: true, countOn }];
  const at = await bench(test, { redis: sectionFor(server.port), workers: 2, limits: { policies } });
  at.up.script = undefined;
  test.same(await statuses(at, { target: '/login' }, 10), { 200: 10 }, 'good ones are given back');
  test.ok(await until(async () => (await server.client.keys('*login*')).length === 0), 'nothing is left of them');
  at.up.script = () => 'HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\n\r\n';
  const ends = await Promise.all(Array.from({ length: 30 }, () => send(at, { target: '/login' })));
  test.equal(ends.filter((status) => status === 401).length, 3, 'exact: taken first, none goes over');
  at.up.script = undefined;
  test.equal(await send(at, { target: '/login' }), 429);
});

t.test('a leaky bucket in Redis makes requests wait, and refuses who would wait too long', options, async (test) => {
  const server = await redis(test);
  const shape = { algorithm: 'leaky-bucket', limit: '5/s', burst: 20, delayMax: '1s' };
  const policies = [...OFF, { name: 'shape', match: { path: '/slow' }, ...shape }];
  const at = await bench(test, { redis: sectionFor(server.port), workers: 2, limits: { policies } });
  const fromMs = performance.now();
  const ends = await Promise.all(Array.from({ length: 20 }, () => send(at, { target: '/slow' })));
  const tookMs = performance.now() - fromMs;
  const passed = ends.filter((status) => status === 200).length;
  // Six at once: one without a wait, five over a second. A busy machine sends some of them later.
  test.ok(passed >= 6 && passed <= 6 + Math.ceil(tookMs / 200), `${passed} pass in ${Math.round(tookMs)} ms`);
  test.ok(tookMs > 700, 'the last of them waited');
  test.equal(passed + ends.filter((status) => status === 429).length, 20);
});

t.test('what the hot-key cache and the store do is shown as metrics', options, async (test) => {
  const server = await redis(test);
  const wide = { name: 'wide', match: { path: '/w' }, limit: '1000/h', algorithm: 'fixed-window' };
  const policies = [...OFF, wide];
  const at = await bench(test, { redis: sectionFor(server.port), limits: { policies } });
  test.same(await statuses(at, { target: '/w' }, 100), { 200: 100 });
  const settled = async (): Promise<boolean> => ((await metric(at, 'hot_key_settled')) ?? 0) > 0;
  test.ok(await until(settled), 'settlements are counted');
  test.ok((await metric(at, 'hot_key_checks'))! > 0, 'and what was answered without Redis');
  for (const name of ['hot_keys', 'hot_key_lost', 'hot_key_owed', 'hot_key_full'])
    test.type(await metric(at, name), 'number', name);
  for (const name of ['redis_gives', 'redis_gives_dropped', 'redis_gives_failed'])
    test.equal(await metric(at, name), 0, name);
});

t.test('a reload keeps the stand-in warm where policies stay', options, async (test) => {
  const server = await redis(test);
  const open = { name: 'open', match: { path: '/open' }, limit: '20/h', exact: true };
  const policies = [...OFF, { ...open, algorithm: 'fixed-window' }];
  const config = { redis: { ...sectionFor(server.port), deadline: '2s' }, limits: { policies } };
  const at = await bench(test, config);
  test.same(await statuses(at, { target: '/open' }, 15), { 200: 15 });
  at.gate.writeConfig(fullConfig({ ...config, trustedProxies: ['203.0.113.0/24'] }, at.up.url));
  at.gate.reload();
  test.ok(await until(() => at.gate.lines.some((line) => line.includes('"msg":"reloaded"'))), 'reloaded');
  await server.stop();
  test.same(await statuses(at, { target: '/open' }, 20), { 200: 5, 429: 15 }, 'it knows the fifteen');
});

const renewed = 'a reload takes the certificates of Redis anew, and only a change opens a new connection';
t.test(renewed, options, async (test) => {
  const folder = mkdtempSync(join(tmpdir(), 'tidegate-renew-'));
  test.teardown(() => rmSync(folder, { recursive: true, force: true }));
  const [key, cert] = [join(folder, 'key.pem'), join(folder, 'cert.pem')];
  const make = (): void => {
    const names = ['-subj', '/CN=localhost', '-addext', 'subjectAltName=IP:127.0.0.1'];
    const files = ['-newkey', 'rsa:2048', '-nodes', '-keyout', key, '-out', cert, '-days', '2'];
    execFileSync('openssl', ['req', '-x509', ...files, ...names], { stdio: 'ignore' });
  };
  make();
  const old = join(folder, 'old.pem');
  copyFileSync(cert, old);
  make();
  const port = await freePort();
  const files = ['--tls-cert-file', cert, '--tls-key-file', key, '--tls-ca-cert-file', cert];
  const server = await redis(test, ['--tls-port', String(port), ...files, '--tls-auth-clients', 'no']);
  const section = { url: `rediss://127.0.0.1:${port}`, deadline: '5s', tls: { ca: 'ca.pem' } };
  const policies = [...OFF, { name: 'closed', match: { path: '/c' }, limit: '1000/h', onFailure: 'refuse' }];
  const trusted = { files: { 'ca.pem': readFileSync(old) } };
  const at = await bench(test, { redis: section, limits: { policies } }, trusted);
  test.equal(await send(at, { target: '/c' }), 429, 'the certificate of the server is not trusted');
  const reloads = async (count: number): Promise<void> => {
    at.gate.reload();
    test.ok(await until(async () => (await metric(at, 'reloads')) === count), `reload ${count}`);
  };
  at.gate.write('ca.pem', readFileSync(cert));
  await reloads(1);
  const served = async (): Promise<boolean> => (await send(at, { target: '/c' })) === 200;
  test.ok(await until(served, 15_000), 'the same name, another file');
  const known = /total_connections_received:(\d+)/;
  const connections = async () => Number(known.exec(await server.client.info('stats'))?.[1]);
  const before = await connections();
  await reloads(2);
  test.same(await statuses(at, { target: '/c' }, 5), { 200: 5 });
  test.equal(await connections(), before, 'nothing changed: the connection stays');
});
