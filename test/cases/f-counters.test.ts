/** Public hard cases about counters in Redis (F01, F05, F06), at the store, with real servers. */
// Where each variant of the cases is tested; a name without a folder is in test/integration.
//
// F01   several slots, two keys of one request: here; a slot that moves and a master lost under load:
//       redis-failover (MOVED, ASK, TRYAGAIN), redis-topologies (resharding)
// F03   (a) packets dropped, (b) SIGSTOP, (c) 300 ms late, (d) name gone: redis-slow-or-gone, under load
//       through a gate, and redis-faults at the store; one route open, one closed: there, and redis-gate
// F05   (a) killed between count and expiry: here; the gate keeps no concurrency slots in Redis: its places
//       in flight end with their worker
//       (b) memory per client: here, and bench/; (c) noeviction: here, redis-faults, redis-troubles
//       (d) eviction: redis-faults, redis-evicting for the counters; bans are not in Redis, it cannot evict
//       them: lists are files and feeds in the workers, scores of sources in the supervisor
//       (e) a million keys and a stall: here
// F06   (a) (b) (c) (d) (e) (f) (g): here; (g) the headers too: test/e2e/limit-answers
import { randomBytes } from 'node:crypto';
import { Redis } from 'ioredis';
import t, { type Test } from 'tap';
import { algorithms } from '../../src/limits/algorithms/index.js';
import { encodeIdentity, keyParts } from '../../src/limits/key.js';
import type { AlgorithmName, Check, CheckResult } from '../../src/limits/limiter-contract.js';
import { redisStore, type RedisStore } from '../../src/limits/stores/redis.js';
import { plainExecutor, redisMissing, type RedisServer, startRedis } from '../support/redis.js';
import { createStandInStore } from '../../src/limits/index.js';
import { bench, until } from '../support/case.js';
import { QUIET_LIMITS } from '../support/gate.js';
import { exchange, request } from '../support/raw-client.js';

const skip = redisMissing;
const START_MS = 1_700_000_000_000;
const HOUR_MS = 3_600_000;

const check = (key: string, given: Partial<Check> = {}): Check => {
  const limit = given.limit ?? 10;
  return { key, algorithm: 'sliding-counter', limit, windowMs: HOUR_MS, burst: limit, cost: 1, ...given };
};
const passes = (results: readonly CheckResult[]): boolean => results.every(({ allowed }) => allowed);

async function server(t: Test, extra: readonly string[] = []): Promise<RedisServer> {
  const started = await startRedis(extra);
  t.teardown(() => started.stop());
  return started;
}

/** A store whose script believes `clock.ms`. */
function timed(of: RedisServer, cluster = false): { store: RedisStore; clock: { ms: number } } {
  const clock = { ms: START_MS };
  return { store: redisStore(plainExecutor(of.client, cluster), { nowMs: () => clock.ms }), clock };
}

async function withoutTtl({ client }: RedisServer): Promise<string[]> {
  const keys = await client.keys('*');
  const ttls = await Promise.all(keys.map((key) => client.pttl(key)));
  return keys.filter((_, at) => ttls[at] === -1);
}

async function cluster(t: Test): Promise<RedisServer> {
  const started = await server(t, ['--cluster-enabled', 'yes']);
  await started.client.cluster('ADDSLOTSRANGE', 0, 16_383);
  const ready = async (): Promise<boolean> => (await started.client.cluster('INFO')).includes('state:ok');
  t.ok(await until(ready, 10_000), 'the cluster is up');
  return started;
}

t.test('F01: keys of several slots in one request', { skip }, async (t) => {
  const clustered = await cluster(t);
  const { store } = timed(clustered, true);
  const { store: single } = timed(await server(t));
  const requests = Array.from({ length: 1000 }, (_, n) => [
    check(`rl:ip:{203.0.113.${n % 50}}:ingress`, { limit: 12 }),
    check(`rl:ip:{203.0.113.${n % 50}}:api`, { limit: 11, algorithm: 'token-bucket' }),
    check(`rl:route:{/login${n % 7}}:login`, { limit: 40, algorithm: 'sliding-log' }),
    check(`rl:session:{s${n % 90}}:api`, { limit: 9, algorithm: 'leaky-bucket' }),
  ]);
  let different = 0;
  let allowed = 0;
  for (const checks of requests) {
    const [here, there] = [await store.checkAll(checks), await single.checkAll(checks)];
    if (passes(here) !== passes(there)) different++;
    if (passes(here)) allowed++;
  }
  t.equal(different, 0, 'the same decisions as on a single node');
  t.ok(allowed > 200 && allowed < 400, `some pass: ${allowed}`);
  t.match(store.stats(), { faults: 0, givesDropped: 0, givesFailed: 0 });
  t.ok(store.stats().gives > 0, 'what one slot counted and another refused was given back');

  const careless = redisStore(plainExecutor(clustered.client));
  await t.rejects(Promise.resolve(careless.checkAll(requests[0]!)), {
    code: 'STORE_FAILED',
    message: /slot/i,
  });
  t.same(await withoutTtl(clustered), []);
});

t.test('F01: at once, slots that refuse never let more pass than the limit', { skip }, async (t) => {
  const { store } = timed(await cluster(t), true);
  const all = await Promise.all(
    Array.from({ length: 500 }, (_, n) =>
      store.checkAll([
        check('rl:route:{/login}:a', { limit: 50 }),
        check(`rl:ip:{10.0.0.${n % 20}}:b`, { limit: 2 }),
      ]),
    ),
  );
  const passed = all.filter(passes).length;
  t.ok(passed > 0 && passed <= 40, `${passed} of at most 40`);
});

t.test('F05: a client that dies at any moment leaves no key without TTL', { skip }, async (t) => {
  const redis = await server(t);
  for (let turn = 0; turn < 100; turn++) {
    const client = new Redis(redis.port, '127.0.0.1', { retryStrategy: () => null });
    client.on('error', () => undefined);
    await client.ping();
    const store = redisStore(plainExecutor(client));
    const asked = algorithms.map(({ name }) => check(`rl:ip:{${turn}}:${name}`, { algorithm: name }));
    void Promise.resolve(store.checkAll(asked)).catch(() => undefined);
    await new Promise((resolve) => setImmediate(resolve));
    if (turn % 2 === 0) await new Promise((resolve) => setImmediate(resolve));
    client.disconnect();
  }
  t.same(await withoutTtl(redis), []);
});

t.test('F05: 180 000 sliding counters take at most 60 MB', { skip }, async (t) => {
  const redis = await server(t);
  const store = redisStore(plainExecutor(redis.client));
  const before = await usedBytes(redis);
  for (let from = 0; from < 180_000; from += 20_000) {
    const asked = Array.from({ length: 200 }, (_, block) =>
      Array.from({ length: 100 }, (_, at) =>
        check(`rl:ip:{${addressOf(from + block * 100 + at)}}:api/sliding-counter/60000`, { limit: 600 }),
      ),
    );
    await Promise.all(asked.map((checks) => store.checkAll(checks)));
  }
  const bytes = (await usedBytes(redis)) - before;
  t.equal(await redis.client.dbsize(), 180_000);
  t.ok(bytes <= 60e6, `${(bytes / 1e6).toFixed(1)} MB, ${Math.round(bytes / 180_000)} bytes each`);
  t.comment(`${(bytes / 1e6).toFixed(1)} MB, ${Math.round(bytes / 180_000)} bytes each`);
});

const addressOf = (n: number): string => `100.${64 + (n >> 16)}.${(n >> 8) & 255}.${n & 255}`;

async function usedBytes({ client }: RedisServer): Promise<number> {
  return Number(/used_memory:(\d+)/.exec(await client.info('memory'))?.[1]);
}

t.test('F05: a full Redis that must not evict is a failure, never a consent', { skip }, async (t) => {
  const redis = await server(t, ['--maxmemory', '1', '--maxmemory-policy', 'noeviction']);
  const store = redisStore(plainExecutor(redis.client));
  for (const { name } of algorithms)
    await t.rejects(Promise.resolve(store.checkAll([check(`rl:ip:{a}:${name}`, { algorithm: name })])), {
      code: 'STORE_FAILED',
      message: /OOM/,
    });
});

t.test('F06: several windows and atomicity', { skip }, async (t) => {
  const redis = await server(t);
  const second = (who: string, given: Partial<Check> = {}): Check =>
    check(`rl:ip:{${who}}:second`, { limit: 10, windowMs: 1000, ...given });
  const minute = (who: string, given: Partial<Check> = {}): Check =>
    check(`rl:ip:{${who}}:minute`, { limit: 100, windowMs: 60_000, ...given });

  await t.test('(a) of 100 calls at once over 4 workers exactly 10 pass', async (t) => {
    const clients = Array.from({ length: 4 }, () => new Redis(redis.port, '127.0.0.1'));
    t.teardown(() => clients.forEach((client) => client.disconnect()));
    const stores = clients.map((client) => redisStore(plainExecutor(client)));
    for (const { name: algorithm } of algorithms) {
      const asked = [
        check(`rl:ip:{a}:${algorithm}/hour`, { algorithm }),
        check(`rl:ip:{a}:${algorithm}/day`, { algorithm, limit: 100, windowMs: 24 * HOUR_MS }),
      ];
      const calls = Array.from({ length: 100 }, (_, n) => stores[n % 4]!.checkAll(asked));
      t.equal((await Promise.all(calls)).filter(passes).length, 10, algorithm);
    }
  });

  await t.test('(b) a client slightly over the limit settles at the allowed rate', async (t) => {
    for (const { name: algorithm } of algorithms) {
      const { store, clock } = timed(redis);
      const calls = Array.from({ length: 12 * 300 }, (_, n) => {
        clock.ms = START_MS + Math.floor((n * 1000) / 12);
        const who = `b${algorithm}`;
        return store.checkAll([second(who, { algorithm }), minute(who, { algorithm })]);
      });
      const minutes = [0, 0, 0, 0, 0];
      (await Promise.all(calls)).forEach((results, n) => {
        if (passes(results)) minutes[Math.floor(n / 720)]! += 1;
      });
      const total = minutes.reduce((sum, count) => sum + count, 0);
      t.ok(total >= 480 && total <= 600, `${algorithm}: ${total} pass in 5 minutes`);
      for (const count of minutes.slice(1))
        t.ok(count >= 90 && count <= 110, `${algorithm}: ${count} a minute`);
    }
  });

  await t.test('(c) what the minute refuses takes nothing from the second', async (t) => {
    const { store, clock } = timed(redis);
    for (let n = 0; n < 100; n++) {
      clock.ms += 150;
      t.ok(passes(await store.checkAll([second('c'), minute('c')])));
    }
    clock.ms += 5000;
    for (let n = 0; n < 5; n++) {
      const [first, wide] = await store.checkAll([second('c'), minute('c')]);
      t.match(first, { allowed: true, remaining: 10 });
      t.match(wide, { allowed: false });
    }
  });

  await t.test('(d) across the boundary each keeps to its stated bound', async (t) => {
    const most: Record<AlgorithmName, number> = {
      'fixed-window': 20,
      'sliding-log': 10,
      'sliding-counter': 10,
      'leaky-bucket': 20,
      'token-bucket': 20,
    };
    for (const { name: algorithm } of algorithms) {
      const { store, clock } = timed(redis);
      const times = [0, ...Array.from({ length: 9 }, () => 990), ...Array.from({ length: 10 }, () => 1010)];
      const calls = times.map((ms) => {
        clock.ms = START_MS + ms;
        return store.checkAll([second(`d${algorithm}`, { algorithm })]);
      });
      // Without the first, which is more than a second before the last.
      const passed = (await Promise.all(calls)).slice(1).filter(passes).length;
      t.ok(passed >= 9 && passed <= most[algorithm], `${algorithm}: ${passed} in 20 ms`);
      if (algorithm === 'fixed-window') t.equal(passed, 19, 'nearly twice the limit, as it says');
    }
  });

  await t.test('(f) clients never share a key, and bring no hash tag of their own', async (t) => {
    const { prefix, suffix } = keyParts('ip+path', 'api', { algorithm: 'sliding-log', windowMs: 1000 });
    const identities = [
      ['1.2.3.4', '5/x'],
      ['1.2.3.45', '/x'],
      ['a:b', 'c'],
      ['a', 'b:c'],
      ['a|b', 'c'],
      ['a', 'b|c'],
      ['{x}', 'y'],
      ['x', '{y}'],
      ['new\nline', 'y'],
      ['new', 'line\ny'],
      ['a', 'p'.repeat(8192)],
      ['a', `${'p'.repeat(8191)}q`],
    ];
    const keys = identities.map((pair) => {
      return prefix + pair.map((part) => encodeIdentity(part)).join('|') + suffix;
    });
    t.equal(new Set(keys).size, keys.length);
    t.ok(keys.every((key) => key.length < 256 && /^[^{}\s]*\{[^{}\s]+\}[^{}\s]*$/.test(key)));
    const { store } = timed(redis);
    for (const key of keys)
      t.ok(passes(await store.checkAll([check(key, { limit: 1 })])), 'its own allowance');
    t.equal((await redis.client.exists(...keys)), keys.length);
  });

  await t.test('(g) of a route limit and a global one the stricter refuses', async (t) => {
    const { store } = timed(redis);
    const asked = [check('rl:ip:{g}:global', { limit: 10 }), check('rl:ip:{g}:route', { limit: 3 })];
    for (let n = 0; n < 3; n++) t.ok(passes(await store.checkAll(asked)));
    t.match(await store.checkAll(asked), [
      { allowed: true, remaining: 7 },
      { allowed: false, remaining: 0 },
    ]);
  });

  t.same(await withoutTtl(redis), []);
});

t.test('F05 (e): a million keys in the local fallback, and a stall of three seconds', async (t) => {
  let nowMs = START_MS;
  const local = createStandInStore({ nowMs: () => nowMs });
  const asked = (key: string, windowMs: number): Check => check(key, { limit: 2, windowMs });
  const abuser = asked('rl:ip:{abuser}:x', 60_000);
  const brief = asked('rl:ip:{brief}:x', 1000);
  for (let call = 0; call < 3; call++) local.checkAll([abuser]);
  for (let key = 0; key < 1_000_000; key++) local.checkAll([asked(`rl:ip:{${key}}:x`, 60_000)]);
  const { keys, evicted } = local.stats();
  t.ok(keys <= 20_000 && evicted >= 980_000, `${keys} keys held, ${evicted} evicted`);
  for (let call = 0; call < 3; call++) local.checkAll([brief]);
  t.notOk(passes(local.checkAll([brief])));
  // Nothing runs meanwhile, no timer either.
  nowMs += 3000;
  t.ok(passes(local.checkAll([brief])), 'expiry is judged on reading');
  t.notOk(passes(local.checkAll([abuser])), 'and who is being refused stays so');
});

t.test('F06 (e): a block without end is an entry of a list, which no window ends', async (t) => {
  const policies = [{ name: 'short', limit: '1/s', algorithm: 'fixed-window' }, ...QUIET_LIMITS.policies];
  const config = { trustedProxies: ['127.0.0.1'], reputation: { blocklist: 'block.txt' }, limits: { policies } };
  const { gate } = await bench(t, config, { files: { 'block.txt': '203.0.113.9\n' } });
  const statusFor = async (from: string): Promise<number> =>
    (await exchange(gate.port, request({ target: '/', headers: [['X-Forwarded-For', from]] }))).status;
  for (let turn = 0; turn < 3; turn++) {
    t.equal(await statusFor('203.0.113.9'), 403);
    await new Promise((resolve) => setTimeout(resolve, 1100));
  }
  t.equal(await statusFor('203.0.113.10'), 200);
});

t.test('counters can be set back, and only those that are named', { skip }, async (t) => {
  const redis = await server(t);
  const { store } = timed(redis);
  for (const { name } of algorithms) {
    const [mine, other] = [`rl:ip:{me}:${name}`, `rl:ip:{other}:${name}`];
    const asked = [mine, other].map((key) => check(key, { algorithm: name, limit: 1 }));
    t.ok(passes(await store.checkAll(asked)));
    t.equal(await store.forget([mine, 'rl:ip:{nobody}:x']), 1);
    const after = [await store.checkAll([asked[0]!]), await store.checkAll([asked[1]!])];
    t.same(after.map(passes), [true, false], name);
  }
});

t.test('F06: a value that no algorithm wrote', { skip }, async (t) => {
  const redis = await server(t);
  const { store } = timed(redis);
  const tagged = [...'FLSBT'].map((tag) => tag + randomBytes(7).toString('latin1'));
  const foreign = ['', '0', 'OK', '{"a":1}', ...tagged];
  for (const { name: algorithm } of algorithms) {
    for (const value of foreign) {
      const key = `rl:ip:{foreign}:${algorithm}`;
      await redis.client.set(key, Buffer.from(value, 'latin1'));
      const [first] = await store.checkAll([check(key, { algorithm, limit: 2 })]);
      t.match(first, { allowed: true, remaining: 1 }, `${algorithm}: no state, and counted`);
      await store.checkAll([check(key, { algorithm, limit: 2 })]);
      t.match(await store.checkAll([check(key, { algorithm, limit: 2 })]), [{ allowed: false }]);
    }
    await redis.client.del('rl:ip:{list}:b');
    await redis.client.rpush('rl:ip:{list}:b', 'x');
    const asked = [check(`rl:ip:{list}:${algorithm}`, { algorithm }), check('rl:ip:{list}:b', { algorithm })];
    await t.rejects(Promise.resolve(store.checkAll(asked)), { code: 'STORE_FAILED', message: /WRONGTYPE/ });
    t.equal(await redis.client.exists(`rl:ip:{list}:${algorithm}`), 0, 'nothing was counted beside it');
  }
});
