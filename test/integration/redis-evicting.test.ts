/** A full Redis that evicts goes on serving, by every policy; what it evicts is counted anew. */
import t from 'tap';
import { fill, redisMissing, startRedis } from '../support/redis.js';
import { scene } from '../support/trouble.js';

const ANY_KEY = ['allkeys-lru', 'allkeys-lfu', 'allkeys-random'];
const WITH_TTL = ['volatile-lru', 'volatile-lfu', 'volatile-random', 'volatile-ttl'];

t.test('a full Redis that evicts', { skip: redisMissing }, async (test) => {
  const server = await startRedis();
  test.teardown(() => server.stop());
  const { suffer } = await scene(test, { url: `redis://127.0.0.1:${server.port}`, deadline: '2s' });
  for (const policy of [...ANY_KEY, ...WITH_TTL]) {
    await suffer({
      name: policy,
      away: false,
      forgets: 3,
      begin: () => fill(server.client, policy),
      end: () => server.client.config('SET', 'maxmemory', '0'),
    });
    const evicted = Number(/evicted_keys:(\d+)/.exec(await server.client.info('stats'))?.[1]);
    test.ok(evicted > 0, `${policy}: it has evicted`);
    await server.client.config('RESETSTAT');
    await server.client.flushall();
  }
});
