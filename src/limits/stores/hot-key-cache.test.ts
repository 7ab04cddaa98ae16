import { setTimeout as sleep } from 'node:timers/promises';
import fc from 'fast-check';
import t from 'tap';
import type { Check, CheckResult, CounterStore } from '../limiter-contract.js';
import { hotKeyCache, type HotKeyCache, type HotKeyCacheOptions } from './hot-key-cache.js';
import { memoryStore } from './memory.js';

const check = (given: Partial<Check> = {}): Check => ({
  key: 'hot',
  algorithm: 'sliding-counter',
  limit: 1000,
  windowMs: 60_000,
  burst: 1000,
  cost: 1,
  cached: true,
  ...given,
});

function handClock(nowMs = 1_000_000) {
  return {
    nowMs: () => nowMs,
    move(ms: number) {
      nowMs += ms;
    },
  };
}
type HandClock = ReturnType<typeof handClock>;

/** Counts calls, answers in a later turn, and fails where `broken.now` says so. */
function counting(store: CounterStore, broken = { now: false }) {
  const calls: (readonly Check[])[] = [];
  const counted: CounterStore = {
    async checkAll(checks) {
      calls.push(checks);
      if (broken.now) throw new Error('down');
      const results = store.checkAll(checks);
      await Promise.resolve();
      return results;
    },
    ...(store.forget === undefined ? {} : { forget: (keys) => store.forget!(keys) }),
    close: () => store.close(),
  };
  return { store: counted, calls };
}

const options = (clock: HandClock, given: Partial<HotKeyCacheOptions> = {}): HotKeyCacheOptions => ({
  clock,
  peers: () => 1,
  syncMs: 100,
  hotAfter: 3,
  keysMax: 100,
  overshoot: 0.25,
  ...given,
});

function open(given: Partial<HotKeyCacheOptions> = {}) {
  const clock = handClock();
  const broken = { now: false };
  const memory = memoryStore({ clock });
  const { store, calls } = counting(memory, broken);
  const faults: unknown[] = [];
  const cache = hotKeyCache(store, options(clock, { onFault: (fault) => faults.push(fault), ...given }));
  return { clock, broken, memory, calls, cache, faults };
}

async function ask(cache: HotKeyCache, count: number, given: Partial<Check> = {}): Promise<CheckResult[]> {
  const results: CheckResult[] = [];
  for (let call = 0; call < count; call++) results.push((await cache.checkAll([check(given)]))[0]!);
  return results;
}
const passed = (results: readonly CheckResult[]): number => results.filter(({ allowed }) => allowed).length;

t.test('a key seen often in one interval is counted here and settled once an interval', async (t) => {
  const { cache, calls, clock, memory } = open();
  for (let interval = 0; interval < 10; interval++) {
    t.equal(passed(await ask(cache, 50)), 50);
    clock.move(100);
  }
  await cache.settle();
  t.ok(calls.length <= 3 + 1 + 10, `${calls.length} calls for 500 requests`);
  t.equal(memory.checkAll([check({ cost: 500 })])[0]?.allowed, true, 'all were counted: 500 are left');
  t.equal(memory.checkAll([check()])[0]?.allowed, false, 'and not one more');
  await cache.close();
});

t.test('what is not marked, the sliding log, a shaping bucket, peek and give go to the store', async (t) => {
  const { cache, calls } = open();
  const rows: Partial<Check>[] = [
    { key: 'a', cached: false },
    { key: 'b', algorithm: 'sliding-log' },
    { key: 'c', algorithm: 'leaky-bucket', delayMaxMs: 100 },
    { key: 'd', op: 'peek' },
    { key: 'e', op: 'give' },
  ];
  for (const row of rows) await ask(cache, 20, row);
  t.equal(calls.length, 100);
  t.equal(cache.stats().local, 0);
  await cache.close();
});

t.test('a key that is rarely seen is left to the store', async (t) => {
  const { cache, calls, clock } = open();
  for (let call = 0; call < 30; call++) {
    await ask(cache, 1);
    clock.move(60);
  }
  t.equal(calls.length, 30);
  await cache.close();
});

t.test('one process alone passes exactly the limit', async (t) => {
  for (const algorithm of ['fixed-window', 'sliding-counter', 'token-bucket', 'leaky-bucket'] as const) {
    const { cache, calls, clock } = open();
    let through = 0;
    for (let interval = 0; interval < 20; interval++) {
      const answers = await Promise.all(
        Array.from({ length: 100 }, () => cache.checkAll([check({ algorithm, windowMs: 600_000_000 })])),
      );
      through += passed(answers.map(([answer]) => answer!));
      clock.move(100);
      await cache.settle();
    }
    t.equal(through, 1000, algorithm);
    t.ok(calls.length < 400, `${algorithm}: ${calls.length} calls for 2000 requests`);
    await cache.close();
  }
});

t.test('a refusal is told again for an interval at most, without a call', async (t) => {
  const { cache, calls, clock } = open();
  await ask(cache, 20, { limit: 5, algorithm: 'fixed-window', windowMs: 1000 });
  const before = calls.length;
  const answers = await ask(cache, 500, { limit: 5, algorithm: 'fixed-window', windowMs: 1000 });
  t.equal(passed(answers), 0);
  t.equal(calls.length, before);
  clock.move(900);
  t.equal(passed(await ask(cache, 1, { limit: 5, algorithm: 'fixed-window', windowMs: 1000 })), 0);
  clock.move(100);
  t.equal(passed(await ask(cache, 1, { limit: 5, algorithm: 'fixed-window', windowMs: 1000 })), 1);
  await cache.close();
});

t.test('an exact check that refuses leaves what is counted here untouched', async (t) => {
  const { cache, memory } = open();
  await ask(cache, 10);
  const exact = check({ key: 'exact', cached: false, limit: 1, burst: 1 });
  t.same(
    (await cache.checkAll([check(), exact])).map(({ allowed }) => allowed),
    [true, true],
  );
  for (let call = 0; call < 30; call++)
    t.equal((await cache.checkAll([check(), exact]))[1]?.allowed, false);
  await cache.settle();
  t.equal(memory.checkAll([check({ cost: 989 })])[0]?.allowed, true, '11 were counted');
  t.equal(memory.checkAll([check()])[0]?.allowed, false);
  await cache.close();
});

t.test('a refusal here keeps the other checks of the request from being counted', async (t) => {
  const { cache, memory } = open();
  await ask(cache, 10, { key: 'full', limit: 5, burst: 5 });
  const other = check({ key: 'other', cached: false });
  const [full, free] = await cache.checkAll([check({ key: 'full', limit: 5, burst: 5 }), other]);
  t.equal(full?.allowed, false);
  t.ok(full!.retryAfterMs > 0);
  t.equal(free?.allowed, true);
  t.equal(memory.checkAll([{ ...other, op: 'take' }])[0]?.remaining, 999);
  await cache.close();
});

t.test('peek and give find settled what was counted here', async (t) => {
  const { cache, calls } = open();
  await ask(cache, 20);
  await cache.checkAll([check({ op: 'peek' })]);
  const ops = calls.slice(-2).map(([first]) => [first?.op ?? 'take', first?.cost]);
  t.same(ops, [
    ['take', 16],
    ['peek', 1],
  ]);
  await cache.close();
});

t.test('when the store fails, what is open is counted as lost and the error reaches the request', async (t) => {
  const { cache, broken, faults } = open();
  await ask(cache, 20);
  broken.now = true;
  await cache.settle();
  t.equal(cache.stats().lost, 16);
  t.equal(faults.length, 1);
  await t.rejects(Promise.resolve(cache.checkAll([check()])), /down/);
  broken.now = false;
  t.equal(passed(await ask(cache, 10)), 10, 'and it goes on when the store is back');
  await cache.close();
});

t.test('hot keys are bounded, and the bound is counted', async (t) => {
  const { cache } = open({ keysMax: 5 });
  for (let key = 0; key < 20; key++) await ask(cache, 10, { key: `k${key}` });
  t.equal(cache.stats().keys, 5);
  t.ok(cache.stats().full > 0);
  await cache.close();
});

t.test('what is left is settled without traffic, and on closing', async (t) => {
  const clock = handClock();
  const { store, calls } = counting(memoryStore({ clock }));
  const cache = hotKeyCache(store, options(clock, { syncMs: 20 }));
  await ask(cache, 10);
  const before = calls.length;
  for (let wait = 0; wait < 100 && calls.length === before; wait++) await sleep(10);
  t.equal(calls.at(-1)?.[0]?.cost, 6);
  await ask(cache, 5);
  await cache.close();
  t.equal(calls.flat().reduce((sum, { cost }) => sum + cost, 0), 15);
});

/** Keeps the process up while the caches' own timers do not. */
const held = setInterval(() => undefined, 1000);
t.teardown(() => clearInterval(held));

t.test('property: no schedule passes more than overshoot × limit above the limit', async (t) => {
  let worst = 0;
  await fc.assert(
    fc.asyncProperty(
      fc.integer({ min: 2, max: 8 }),
      fc.integer({ min: 1, max: 400 }),
      fc.constantFrom(0.1, 0.25, 1),
      fc.array(fc.tuple(fc.nat(7), fc.integer({ min: 1, max: 60 }), fc.nat(120)), {
        minLength: 20,
        maxLength: 80,
      }),
      async (peers, limit, overshoot, schedule) => {
        const clock = handClock();
        const { store } = counting(memoryStore({ clock }));
        const caches = Array.from({ length: peers }, () =>
          hotKeyCache(store, options(clock, { peers: () => peers, overshoot, hotAfter: 1 })),
        );
        const one = check({ algorithm: 'fixed-window', limit, burst: limit, windowMs: 86_400_000 });
        let through = 0;
        for (const [at, burst, gapMs] of schedule) {
          const answers = Array.from({ length: burst }, () => caches[at % peers]!.checkAll([one]));
          for (const answer of await Promise.all(answers)) if (answer[0]?.allowed) through++;
          clock.move(gapMs);
        }
        const bound = peers * Math.floor((overshoot * limit) / peers);
        worst = Math.max(worst, (through - limit) / limit / overshoot);
        await Promise.all(caches.map((cache) => cache.settle()));
        for (const cache of caches) await cache.close();
        return through <= limit + bound;
      },
    ),
    { numRuns: 60 },
  );
  t.comment(`worst overshoot seen: ${(worst * 100).toFixed(1)} % of the bound`);
});

t.test('property: what was passed above the limit is paid back, so that the long run is exact', async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(fc.nat(3), { minLength: 200, maxLength: 300 }), async (schedule) => {
      const clock = handClock();
      const { store } = counting(memoryStore({ clock }));
      const peers = 4;
      const caches = Array.from({ length: peers }, () =>
        hotKeyCache(store, options(clock, { peers: () => peers, overshoot: 1, hotAfter: 1 })),
      );
      const one = check({ algorithm: 'token-bucket', limit: 100, burst: 100, windowMs: 1000 });
      let through = 0;
      for (const at of schedule) {
        const answers = Array.from({ length: 40 }, () => caches[at]!.checkAll([one]));
        for (const answer of await Promise.all(answers)) if (answer[0]?.allowed) through++;
        clock.move(25);
      }
      const spanMs = schedule.length * 25;
      for (const cache of caches) await cache.close();
      return through <= 100 + spanMs / 10 + 100;
    }),
    { numRuns: 20 },
  );
});
