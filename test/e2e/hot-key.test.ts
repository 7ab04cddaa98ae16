/** A gate with Redis counts hot keys through the cache; what it counted arrives. */
import t from 'tap';
import { bench } from '../support/case.js';
import { exchange, request } from '../support/raw-client.js';
import { redisMissing, startRedis } from '../support/redis.js';

t.test('300 requests of one client cost far fewer calls', { skip: redisMissing }, async (test) => {
  const server = await startRedis();
  test.teardown(() => server.stop());
  const policies = [
    { name: 'ingress', enabled: false },
    { name: 'api', match: { path: '/api/**' }, limit: '1000/h', algorithm: 'fixed-window' },
  ];
  const at = await bench(test, { redis: { url: `redis://127.0.0.1:${server.port}` }, limits: { policies } });
  const statuses = new Set<number>();
  for (let call = 0; call < 300; call++)
    statuses.add((await exchange(at.gate.port, request({ target: '/api/x' }))).status);
  test.same([...statuses], [200]);
  const text = await server.client.info('commandstats');
  const calls = Number(/cmdstat_evalsha:calls=(\d+)/.exec(text)?.[1] ?? 0);
  test.ok(calls < 200, 'fewer calls than requests', { calls });
  test.comment(`${calls} calls for 300 requests`);
});
