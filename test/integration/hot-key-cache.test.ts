/** The hot-key cache before a real Redis: calls it saves on a hot key, and how far it may overshoot. */
import { setTimeout as sleep } from 'node:timers/promises';
import t, { type Test } from 'tap';
import { steadyClock } from '../../src/core/clock.js';
import { createIdentities } from '../../src/identity/index.js';
import { claimedRequest } from '../../src/identity/claimed.js';
import { identitySection } from '../../src/identity/config.js';
import { algorithms } from '../../src/limits/algorithms/index.js';
import { limitsSection } from '../../src/limits/config.js';
import { createInspector, hotKeyCache, redisStore } from '../../src/limits/index.js';
import type { Check, CounterStore } from '../../src/limits/limiter-contract.js';
import { plainExecutor, redisMissing, startRedis } from '../support/redis.js';

const PEERS = 8;
const OVERSHOOT = 0.25;

const hot = (limit: number): Check => ({
  key: 'rl:ip:{192.0.2.1}:hot/fixed-window/86400000',
  algorithm: 'fixed-window',
  limit,
  windowMs: 86_400_000,
  burst: limit,
  cost: 1,
  cached: true,
});

async function open(test: Test, peers: number) {
  const server = await startRedis();
  test.teardown(() => server.stop());
  const stores = Array.from({ length: peers }, () => redisStore(plainExecutor(server.client)));
  const caches = stores.map((store) =>
    hotKeyCache(store, {
      clock: steadyClock,
      peers: () => peers,
      syncMs: 100,
      hotAfter: 3,
      keysMax: 100,
      overshoot: OVERSHOOT,
    }),
  );
  const calls = (): number => stores.reduce((sum, store) => sum + store.stats().scriptCalls, 0);
  return { server, stores, caches, calls };
}

/** Bursts of one turn each, a moment apart, over all stores; answers how many passed. */
async function drive(stores: readonly CounterStore[], check: Check, { turns = 100, burst = 50 } = {}) {
  let passed = 0;
  for (let turn = 0; turn < turns; turn++) {
    const store = stores[turn % stores.length]!;
    const answers = await Promise.all(Array.from({ length: burst }, () => store.checkAll([check])));
    passed += answers.filter(([answer]) => answer?.allowed).length;
    await sleep(2);
  }
  return passed;
}

t.test('on a hot key at least fifty times fewer calls', { skip: redisMissing }, async (test) => {
  const { stores, caches, calls } = await open(test, 1);
  const check = hot(1_000_000);
  const requests = await drive(stores, check);
  const without = calls();
  await drive(caches, check, { turns: 5 });
  const before = calls();
  test.equal(await drive(caches, check, { turns: 400 }), 20_000);
  await caches[0]!.settle();
  const spent = calls() - before;
  test.comment(`without: ${without / requests} calls a request; with: 1 in ${Math.round(20_000 / spent)}`);
  test.equal(without, requests);
  test.ok(spent <= 20_000 / 50, 'at most one call for fifty requests', { spent });
  test.equal((await stores[0]!.checkAll([{ ...check, op: 'peek' }]))[0]?.remaining, 1_000_000 - 25_251);
});

t.test('a flood on a used-up key is refused here', { skip: redisMissing }, async (test) => {
  const { caches, calls } = await open(test, 1);
  const check = hot(100);
  await drive(caches, check, { turns: 4 });
  const before = calls();
  test.equal(await drive(caches, check, { turns: 200 }), 0);
  const spent = calls() - before;
  test.ok(spent <= 10_000 / 50, 'at least fifty times fewer calls', { spent });
  test.comment(`${spent} calls for 10 000 refused requests`);
});

t.test('eight workers together stay within the bound, and pay back', { skip: redisMissing }, async (test) => {
  const { caches, stores } = await open(test, PEERS);
  const check = hot(3000);
  const passed = await drive(caches, check, { turns: 240, burst: 40 });
  await Promise.all(caches.map((cache) => cache.settle()));
  const bound = PEERS * Math.floor((OVERSHOOT * 3000) / PEERS);
  test.ok(passed <= 3000 + bound, 'the documented bound', { passed });
  test.ok(passed >= 3000, 'and all of the limit can be used', { passed });
  const owed = caches.reduce((sum, cache) => sum + cache.stats().owed, 0);
  test.equal(passed, 3000 + owed, 'what is above is owed');
  test.comment(`passed ${passed} of 3000, ${((passed / 3000 - 1) * 100).toFixed(2)} % above; bound 25 %`);
  test.equal((await stores[0]!.checkAll([check]))[0]?.allowed, false);
});

t.test('an identity in Redis is shown and set back', { skip: redisMissing }, async (test) => {
  const { stores } = await open(test, 1);
  const [store] = stores;
  const identity = identitySection.parse({});
  const names = algorithms.map(({ name }) => name);
  const policies = names.map((algorithm) => ({ name: algorithm, algorithm, limit: '10/min' }));
  const inspector = createInspector(limitsSection.parse({ policies }), {
    store: store!,
    identities: createIdentities(identity, 'key'),
  });
  const claimed = claimedRequest({ ip: '192.0.2.1' }, identity, 64)!;
  for (const algorithm of names) {
    const of = { ...claimed, policy: algorithm, matching: false };
    const key = `rl:ip:{192.0.2.1}:${algorithm}/${algorithm}/60000`;
    const check = { ...hot(10), algorithm, key, windowMs: 60_000 };
    for (let call = 0; call < 12; call++) await store!.checkAll([check]);
    const [before] = await inspector.show(of);
    test.ok(before!.used >= 9 && before!.used <= 10 && before!.limit === 10, algorithm, { before });
    await inspector.reset(of);
    const [after] = await inspector.show(of);
    test.match(after, { used: 0, remaining: 10, retryAfterMs: 0 }, `${algorithm}: set back`);
  }
});
