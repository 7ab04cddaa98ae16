/** Several gates with several workers each count one limit: none too many, none too few. */
import t from 'tap';
import { until } from '../support/case.js';
import { countBy, loadClient } from '../support/load.js';
import { startNodes, WORKERS } from '../support/nodes.js';
import { redisMissing, startRedis } from '../support/redis.js';

t.test('two gates, one Redis: 5 of 1 000 logins at once pass', { skip: redisMissing }, async (test) => {
  const server = await startRedis();
  test.teardown(() => server.stop());
  // The deadline is wide: here it is the machine that is slow.
  const redis = { url: `redis://127.0.0.1:${server.port}`, deadline: '5s' };
  const policies = [
    { name: 'ingress', enabled: false },
    { name: 'api', enabled: false },
  ];
  const gates = await startNodes(test, 2, { redis, limits: { policies } });
  const known = async (): Promise<boolean> => (await server.client.zcard('rl:nodes')) === 2;
  test.ok(await until(known, 15_000), 'they see each other');
  const client = loadClient(100);
  test.teardown(() => client.close());
  const login = (turn: number, from: string) =>
    client.send({ port: gates[turn % 2]!.port, path: '/login', method: 'POST', from });

  const fromMs = performance.now();
  const all = await Promise.all(Array.from({ length: 1000 }, (_, turn) => login(turn, '198.51.100.7')));
  const tookMs = performance.now() - fromMs;
  test.ok(tookMs < 55_000, `within the minute: ${Math.round(tookMs)} ms`);
  test.same(countBy(all), { 200: 5, 429: 995 });
  for (const [at, gate] of gates.entries()) {
    test.ok(await until(() => gate.decisions.length >= 500), 'all were told in the log');
    const workers = new Set(gate.decisions.map(({ worker }) => worker));
    test.equal(workers.size, WORKERS, `every worker of gate ${at} took part`);
    test.equal(gate.stderr, '');
  }
  const twenty = Array.from({ length: 200 }, (_, turn) => login(turn, `198.51.100.${20 + (turn % 20)}`));
  const others = await Promise.all(twenty);
  test.same(countBy(others), { 200: 100, 429: 100 }, 'each of twenty others has its own five');
  test.comment(`${WORKERS} workers a gate: 1 000 in ${Math.round(tookMs)} ms`);
});
