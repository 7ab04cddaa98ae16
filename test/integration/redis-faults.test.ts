/**
 * What Redis can do to a limiter, with a real one: each trouble is a named failure and never a consent, and
 * the store is whole again once the trouble is over (F03, F05).
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { Redis } from 'ioredis';
import t, { type Test } from 'tap';
import { Fault } from '../../src/core/errors.js';
import { redisMissing, startRedis } from '../support/redis.js';
import { startProxy } from '../support/redis-proxy.js';
import { openShared, until, type SharedStore } from '../support/shared-store.js';

const codeOf = (outcome: unknown): string => (outcome instanceof Fault ? outcome.code : String(outcome));
const urlOf = (port: number) => ({ url: `redis://127.0.0.1:${port}` });
/** Quick to open, quick to try again. */
const breaker = { failures: 3, probeEvery: '40ms', ramp: '20ms' };

async function wellAgain(t: Test, shared: SharedStore): Promise<void> {
  t.ok(await until(async () => (await shared.hit('again')) === 'passed'), 'answers again');
  t.ok(await until(() => shared.store.stats().state === 'closed'), 'and the breaker is closed');
}

const options = { skip: redisMissing };

t.test('limits hold, over two clients and a lost script (NOSCRIPT)', options, async (t) => {
  const server = await startRedis();
  const [one, other] = [await openShared(urlOf(server.port)), await openShared(urlOf(server.port))];
  const ends = [];
  for (let turn = 0; turn < 4; turn++) {
    ends.push(await one.hit('a', { limit: 5 }), await other.hit('a', { limit: 5 }));
    await server.client.script('FLUSH');
  }
  t.equal(ends.filter((end) => end === 'passed').length, 5);
  t.equal(ends.filter((end) => end === 'refused').length, 3);
  t.ok(one.client.stats().scriptLoads >= 1, 'the script was loaded again');
  const many = await Promise.all(Array.from({ length: 500 }, () => one.hit('b', { limit: 10 })));
  t.equal(many.filter((end) => end === 'passed').length, 10);
  await server.client.script('FLUSH');
  const more = await Promise.all(Array.from({ length: 500 }, () => one.hit('c', { limit: 10 })));
  t.equal(more.filter((end) => end === 'passed').length, 10, 'a flush under load costs nothing');
  await Promise.all([one.close(), other.close()]);
  t.equal(codeOf(await one.hit('a')), 'STORE_CLOSED');
  await server.stop();
});

t.test('a stopped Redis costs the deadline, then nothing; it is back by itself', options, async (t) => {
  const server = await startRedis();
  const shared = await openShared({ ...urlOf(server.port), deadline: '50ms', breaker });
  t.equal(await shared.hit('a'), 'passed');
  server.process.kill('SIGSTOP');
  for (let call = 0; call < 3; call++) t.equal(codeOf(await shared.hit('a')), 'REDIS_TIMEOUT');
  t.equal(shared.store.stats().state, 'open');
  const sent = shared.client.stats().inFlight;
  for (let call = 0; call < 1000; call++) await shared.hit('a');
  t.ok(shared.store.stats().skipped >= 1000, 'nobody waits for it');
  t.ok(shared.client.stats().inFlight <= sent + 5, 'and nothing piles up');
  await sleep(1500);
  server.process.kill('SIGCONT');
  await wellAgain(t, shared);
  await shared.close();
  await server.stop();
});

t.test('a killed Redis is a failure at once', options, async (t) => {
  const server = await startRedis();
  const proxy = await startProxy(server.port);
  const shared = await openShared({ ...urlOf(proxy.port), breaker });
  server.process.kill('SIGKILL');
  t.ok(await until(async () => codeOf(await shared.hit('a')) === 'REDIS_UNREACHABLE'));
  t.ok(await until(() => shared.store.stats().state === 'open' || shared.hit('a').then(() => false)));
  await proxy.close();
  await shared.close();
  await server.stop();
});

t.test('a script that does not end (BUSY) is a failure, and its end is noticed', options, async (t) => {
  const server = await startRedis(['--busy-reply-threshold', '30']);
  const shared = await openShared({ ...urlOf(server.port), deadline: '200ms', breaker });
  const endless = server.client.eval('while true do end', 0).catch(() => 'killed');
  t.ok(await until(async () => codeOf(await shared.hit('a')) === 'REDIS_BUSY'), 'named as what it is');
  const other = new Redis(server.port, '127.0.0.1', { enableReadyCheck: false });
  await other.script('KILL');
  t.equal(await endless, 'killed');
  await wellAgain(t, shared);
  other.disconnect();
  await shared.close();
  await server.stop();
});

t.test('a replica (READONLY) is a failure; promoted, it serves', options, async (t) => {
  const server = await startRedis();
  const shared = await openShared({ ...urlOf(server.port), breaker });
  t.equal(await shared.hit('a'), 'passed');
  await server.client.call('REPLICAOF', '127.0.0.1', '1');
  await server.client.config('SET', 'replica-serve-stale-data', 'yes');
  t.equal(codeOf(await shared.hit('a')), 'REDIS_READONLY');
  t.ok(await until(async () => (await shared.hit('a'), shared.store.stats().state === 'open')));
  const { connects } = shared.client.stats();
  await server.client.call('REPLICAOF', 'NO', 'ONE');
  await wellAgain(t, shared);
  t.ok(shared.client.stats().connects > 1, `connected anew (${connects})`);
  await shared.close();
  await server.stop();
});

t.test('a master without the replicas it must have (NOREPLICAS) is a failure', options, async (t) => {
  const server = await startRedis(['--min-replicas-to-write', '1']);
  const shared = await openShared({ ...urlOf(server.port), breaker });
  t.match(await shared.hit('a'), { code: 'REDIS_NO_WRITES', message: /NOREPLICAS/ });
  await server.client.config('SET', 'min-replicas-to-write', '0');
  await wellAgain(t, shared);
  await shared.close();
  await server.stop();
});

t.test('a full Redis: noeviction is a failure, every other policy serves', options, async (t) => {
  const policies = ['noeviction', 'allkeys-lru', 'allkeys-lfu', 'allkeys-random'];
  const volatile = ['volatile-lru', 'volatile-lfu', 'volatile-random', 'volatile-ttl'];
  const server = await startRedis();
  for (const policy of [...policies, ...volatile]) {
    await server.client.flushall();
    await server.client.config('SET', 'maxmemory-policy', policy);
    await server.client.config('SET', 'maxmemory', '0');
    const used = Number(/used_memory:(\d+)/.exec(await server.client.info('memory'))![1]);
    const shared = await openShared({ ...urlOf(server.port), breaker });
    const pipeline = server.client.pipeline();
    const text = 'x'.repeat(1000);
    for (let key = 0; key < 3000; key++) pipeline.set(`fill-${key}`, text, 'EX', 600);
    await pipeline.exec();
    await server.client.config('SET', 'maxmemory', String(used + 1_000_000));
    const ends = new Set<string>();
    for (let call = 0; call < 20; call++) ends.add(codeOf(await shared.hit(`k${call}`)));
    if (policy === 'noeviction') {
      t.same([...ends], ['REDIS_OOM'], 'noeviction: refused by name, never a consent');
      await server.client.config('SET', 'maxmemory', '0');
      await wellAgain(t, shared);
    } else t.same([...ends], ['passed'], `${policy}: served`);
    await shared.close();
  }
  await server.stop();
});

t.test('a half-open connection is dropped after a second and made anew', options, async (t) => {
  const server = await startRedis();
  const proxy = await startProxy(server.port);
  const shared = await openShared({ ...urlOf(proxy.port), deadline: '50ms', breaker });
  t.equal(await shared.hit('a'), 'passed');
  proxy.swallow(true);
  t.equal(codeOf(await shared.hit('a')), 'REDIS_TIMEOUT');
  t.ok(await until(async () => (await shared.hit('a'), shared.store.stats().state === 'open')));
  t.ok(await until(() => proxy.accepted() > 1, 5_000), 'a new connection was tried');
  proxy.swallow(false);
  await wellAgain(t, shared);
  t.equal(await until(() => shared.client.stats().inFlight === 0), true, 'nothing is left under way');
  await shared.close();
  await proxy.close();
  await server.stop();
});

t.test('a slow Redis (300 ms) is left alone; late answers are counted and dropped', options, async (t) => {
  const server = await startRedis();
  const proxy = await startProxy(server.port);
  const shared = await openShared({ ...urlOf(proxy.port), deadline: '20ms', breaker });
  proxy.delay(300);
  t.ok(await until(async () => (await shared.hit('a'), shared.store.stats().state === 'open')));
  t.ok(await until(() => shared.store.stats().late >= 3), 'the answers came and changed nothing');
  proxy.delay(0);
  await wellAgain(t, shared);
  await shared.close();
  await proxy.close();
  await server.stop();
});

t.test('a flush in mid-run forgets the counters and nothing else', options, async (t) => {
  const server = await startRedis();
  const shared = await openShared(urlOf(server.port));
  for (let call = 0; call < 6; call++) await shared.hit('a', { limit: 5 });
  t.equal(await shared.hit('a', { limit: 5 }), 'refused');
  await server.client.flushall();
  t.equal(await shared.hit('a', { limit: 5 }), 'passed');
  t.same(shared.states, [], 'the breaker never opened');
  await shared.close();
  await server.stop();
});

t.test('a name that is gone, a closed port and a silent host fail, and say so', options, async (t) => {
  const gone = await openShared({ url: 'redis://redis.invalid:6379', breaker }, { wait: false });
  t.ok(await until(async () => /ENOTFOUND|EAI_AGAIN/.test(messageOf(await gone.hit('a')))));
  t.equal(codeOf(await gone.hit('a')), 'REDIS_UNREACHABLE');
  await gone.close();
  const server = await startRedis();
  await server.stop();
  const closed = await openShared({ ...urlOf(server.port), breaker });
  t.match(messageOf(await closed.hit('a')), /ECONNREFUSED/);
  await closed.close();
});

const messageOf = (outcome: unknown): string => (outcome instanceof Fault ? outcome.message : '');
