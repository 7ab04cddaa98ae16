/**
 * The gate while Redis is away: the open route holds its limit locally, the closed one is refused, nothing
 * waits for Redis or fails, and it comes back by itself (F03).
 */
import t from 'tap';
import { bench, until, type Bench } from '../support/case.js';
import { fullConfig } from '../support/gate.js';
import { exchange, request } from '../support/raw-client.js';
import { redisMissing, startRedis } from '../support/redis.js';

const limits = {
  policies: [
    { name: 'ingress', enabled: false },
    { name: 'api', enabled: false },
    { name: 'open', match: { path: '/open' }, by: 'ip', limit: '40/min', exact: true },
    { name: 'closed', match: { path: '/closed' }, by: 'ip', limit: '9000/min', onFailure: 'refuse' },
  ],
};

async function statuses({ gate }: Bench, target: string, count: number): Promise<Record<number, number>> {
  const seen: Record<number, number> = {};
  for (let call = 0; call < count; call++) {
    const { status } = await exchange(gate.port, request({ target }), { timeoutMs: 10_000 });
    seen[status] = (seen[status] ?? 0) + 1;
  }
  return seen;
}
const health = async ({ gate }: Bench): Promise<{ state: string }> =>
  ((await (await gate.admin('/readyz')).json()) as { limits: { state: string } }).limits;
const inState = (at: Bench, state: string) => until(async () => (await health(at)).state === state, 20_000);

t.test('Redis stops and goes on', { skip: redisMissing }, async (test) => {
  const server = await startRedis();
  test.teardown(() => server.stop());
  const redis = { url: `redis://127.0.0.1:${server.port}`, deadline: '200ms', breaker: { failures: 3 } };
  const at = await bench(test, { redis, limits });
  test.same(await statuses(at, '/open', 30), { 200: 30 });
  server.process.kill('SIGSTOP');
  test.same(await statuses(at, '/closed', 20), { 429: 20 }, 'the closed route is refused');
  test.same(await statuses(at, '/open', 30), { 200: 10, 429: 20 }, 'the local limit knows what passed');
  test.ok(await inState(at, 'degraded'), 'ready, and it says what does not work');
  server.process.kill('SIGCONT');
  test.ok(await inState(at, 'ok'), 'back by itself');
  test.same(await statuses(at, '/closed', 20), { 200: 20 });
  test.equal(at.gate.lines.filter((line) => line.includes('Redis is left alone')).length, 1, 'told once');
  test.equal(at.gate.stderr, '', 'nothing unhandled');
});

const restarted = 'the gate starts with Redis away, and a reload takes it to another';
t.test(restarted, { skip: redisMissing }, async (test) => {
  const server = await startRedis();
  test.teardown(() => server.stop());
  const config = (port: number) => ({ redis: { url: `redis://127.0.0.1:${port}`, deadline: '2s' }, limits });
  const at = await bench(test, config(1));
  test.ok(await inState(at, 'degraded'));
  test.same(await statuses(at, '/open', 50), { 200: 40, 429: 10 });
  at.gate.writeConfig(fullConfig(config(server.port), at.up.url));
  at.gate.reload();
  test.ok(await inState(at, 'ok'), 'the new one is used');
  const served = async (): Promise<boolean> => (await statuses(at, '/closed', 5))[200] === 5;
  test.ok(await until(served, 10_000), 'the closed route opens');
  test.ok((await server.client.keys('rl:ip:*closed*')).length === 1, 'and counts');
});
