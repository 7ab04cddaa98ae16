/**
 * What else happens to a Redis, through a gate under load: killed and restarted, still loading, read-only,
 * full, flushed. What cannot be asked is left alone, what can goes on serving.
 */
import type { ChildProcess } from 'node:child_process';
import { Redis } from 'ioredis';
import t from 'tap';
import { fill, redisMissing, spawnRedis, startRedis } from '../support/redis.js';
import { scene } from '../support/trouble.js';

t.test('a Redis in trouble', { skip: redisMissing }, async (test) => {
  const server = await startRedis();
  const { client } = server;
  const later: ChildProcess[] = [];
  test.teardown(async () => {
    for (const child of later) child.kill('SIGKILL');
    await server.stop();
  });
  // A busy machine is no trouble of Redis, and none of these is silent.
  const { suffer } = await scene(test, { url: `redis://127.0.0.1:${server.port}`, deadline: '2s' });
  await suffer({
    name: 'read-only',
    away: true,
    begin: () => client.call('REPLICAOF', '127.0.0.1', '1'),
    end: () => client.call('REPLICAOF', 'NO', 'ONE'),
  });
  await suffer({
    name: 'full, noeviction',
    away: true,
    begin: () => fill(client, 'noeviction'),
    end: () => client.config('SET', 'maxmemory', '0'),
  });
  const flush = () => client.flushall();
  await suffer({ name: 'flushed', away: false, forgets: 1, begin: flush, end: () => undefined });
  const start = (extra: readonly string[]): void => void later.push(spawnRedis(server, extra));
  await suffer({
    name: 'killed',
    away: true,
    forgets: 1,
    begin: () => void server.process.kill('SIGKILL'),
    end: () => start([]),
  });

  const second = new Redis(server.port, '127.0.0.1', { retryStrategy: () => null });
  second.on('error', () => undefined);
  test.teardown(() => second.disconnect());
  const pipeline = second.pipeline();
  for (let key = 0; key < 4000; key++) pipeline.set(`key-${key}`, 'x', 'EX', 600);
  await pipeline.exec();
  await second.save();
  const slowly = ['--key-load-delay', '1000', '--loading-process-events-interval-bytes', '1024'];
  await suffer({
    name: 'loading',
    away: true,
    forgets: 1,
    begin: () => {
      const before = later.at(-1)!;
      before.once('exit', () => start(slowly));
      before.kill('SIGKILL');
    },
    end: () => undefined,
  });
});
