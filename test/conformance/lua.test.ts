/** The Lua scripts on a real Redis against their TypeScript twins: the shared table, and random schedules. */
import { deepEqual, ok } from 'node:assert/strict';
import fc from 'fast-check';
import t from 'tap';
import { algorithms } from '../../src/limits/algorithms/index.js';
import { steadyClock } from '../../src/core/clock.js';
import type { Check, CheckResult } from '../../src/limits/limiter-contract.js';
import { memoryStore } from '../../src/limits/stores/memory.js';
import { redisStore } from '../../src/limits/stores/redis.js';
import { bounds, mostWithin, playTable, purely, type Hit } from '../../src/limits/testing.js';
import { plainExecutor, redisMissing, type RedisServer, startRedis } from '../support/redis.js';

const names = algorithms.map(({ name }) => name);
const BASE_MS = 1_700_000_000_000;

const shape = fc.record({
  algorithm: fc.constantFrom(...names),
  limit: fc.oneof(fc.integer({ min: 1, max: 12 }), fc.integer({ min: 1, max: 1_000_000 })),
  windowMs: fc.oneof(
    fc.integer({ min: 1, max: 700 }),
    fc.constantFrom(1, 65_535, 65_536, 65_537, 16_777_216, 16_777_217, 604_800_000),
  ),
  burst: fc.integer({ min: 1, max: 15 }),
  delayMaxMs: fc.oneof(fc.constant(0), fc.nat(900)),
});
const shapes = fc.array(shape, { minLength: 1, maxLength: 3 });
const step = fc.record({
  /** Below nothing: the clock of a replica that took over. */
  gap: fc.oneof(fc.constant(0), fc.nat(40), fc.nat(900), fc.integer({ min: -500, max: -1 })),
  /** In thousandths of the window, so that wide windows turn too. */
  gapShare: fc.oneof(fc.constant(0), fc.constant(0), fc.integer({ min: 1, max: 2500 })),
  cost: fc.integer({ min: 1, max: 4 }),
  ops: fc.array(fc.constantFrom('take', 'take', 'take', 'peek', 'give'), { minLength: 3, maxLength: 3 }),
});

type Step = Readonly<{ atMs: number; checks: Check[] }>;

type Gap = typeof step extends fc.Arbitrary<infer T> ? T : never;

function schedule(shapes: readonly Omit<Check, 'key' | 'cost'>[], steps: readonly Gap[]): Step[] {
  let atMs = BASE_MS;
  runs++;
  return steps.map(({ gap, gapShare, cost, ops }) => {
    atMs += gap + Math.floor((gapShare * (shapes[0]?.windowMs ?? 0)) / 1000);
    const checks = shapes.map((one, at): Check => ({
      ...one,
      key: `rl:${runs}:{a}:${at}`,
      cost,
      op: ops[at] as Check['op'],
    }));
    return { atMs, checks };
  });
}
/** Costs alone are played, on a clock that goes on. */
const takes = (one: Gap): Gap => ({ ...one, gap: Math.abs(one.gap), ops: ['take'] });
type Reference = (checks: readonly Check[], atMs: number) => CheckResult[];
let runs = 0;

/** Without the sign of nothing. */
const plain = (results: readonly CheckResult[]): object[] =>
  results.map((result) => JSON.parse(JSON.stringify(result)) as object);

void t.test('Lua and TypeScript', { skip: redisMissing }, async (t) => {
  const server = await startRedis();
  t.teardown(() => server.stop());
  let nowMs = BASE_MS;
  const store = redisStore(plainExecutor(server.client), { nowMs: () => nowMs });

  await t.test('Lua meets the shared table of timed calls', async (t) => {
    await playTable(t, async (check, atMs) => {
      nowMs = atMs;
      return (await store.checkAll([check]))[0]!;
    });
  });

  /** Asks Redis and `reference` the same; all of one turn, so that it is one pipeline, in order. */
  async function compare(plan: readonly Step[], reference: Reference): Promise<void> {
    const wanted: CheckResult[][] = [];
    const given = plan.map(({ atMs, checks }) => {
      nowMs = atMs;
      wanted.push(reference(checks, atMs));
      return store.checkAll(checks);
    });
    for (const [at, results] of (await Promise.all(given)).entries()) {
      deepEqual(plain(results), plain(wanted[at] ?? []), `step ${at}`);
    }
  }

  await t.test('random schedules, clock steps too: the pure functions say the same to the last number', () =>
    fc.assert(
      fc.asyncProperty(shapes, fc.array(step, { maxLength: 120, size: 'max' }), (of, steps) =>
        compare(schedule(of, steps), purely()),
      ),
      { numRuns: 400 },
    ),
  );

  await t.test('random schedules on a steady clock: so does the memory store', () =>
    fc.assert(
      fc.asyncProperty(shapes, fc.array(step, { maxLength: 120, size: 'max' }), (of, steps) => {
        const forward = steps.map((one) => ({ ...one, gap: Math.abs(one.gap) }));
        const memory = memoryStore({ clock: { nowMs: () => nowMs } });
        return compare(schedule(of, forward), (checks) => memory.checkAll(checks));
      }),
      { numRuns: 200 },
    ),
  );

  await t.test('limits that change under the same key never misread what is there', async () => {
    const size = fc.integer({ min: 1, max: 30 });
    const change = fc.record({ limit: size, burst: size });
    const property = fc.asyncProperty(
      fc.constantFrom(...names),
      fc.array(fc.tuple(change, fc.nat(300)), { minLength: 1, maxLength: 60, size: 'max' }),
      async (algorithm, changes) => {
        runs++;
        let allowed = 0;
        nowMs = BASE_MS;
        for (const result of await Promise.all(
          changes.map(([sizes, gapMs]) => {
            nowMs += gapMs;
            const key = `rl:reload:{${runs}}`;
            return store.checkAll([{ key, algorithm, windowMs: 1000, cost: 1, ...sizes }]);
          }),
        ).then((all) => all.flat())) {
          if (result.allowed) allowed++;
          for (const part of Object.values(result)) ok(part === true || part === false || part >= 0);
        }
        const windows = (nowMs - BASE_MS) / 1000 + 2;
        ok(allowed <= 30 * windows, 'no more than the widest of the limits ever gives');
      },
    );
    await fc.assert(property, { numRuns: 100 });
  });

  for (const name of names) {
    await t.test(`${name}: no random schedule beats its bound in Redis`, () =>
      fc.assert(
        fc.asyncProperty(shape, fc.array(step, { maxLength: 120, size: 'max' }), async (given, steps) => {
          const plan = schedule([{ ...given, algorithm: name, delayMaxMs: 0 }], steps.map(takes));
          const asked = plan.map(({ atMs, checks }) => {
            nowMs = atMs;
            return store.checkAll(checks);
          });
          const answers = await Promise.all(asked);
          const hits = plan.flatMap(({ atMs, checks: [check] }, at): Hit[] =>
            answers[at]?.[0]?.allowed === true ? [{ atMs, cost: check!.cost }] : [],
          );
          const check = plan[0]?.checks[0];
          ok(check === undefined || mostWithin(hits, check.windowMs) <= bounds[name](check));
        }),
        { numRuns: 60 },
      ),
    );
  }

  await t.test('a worker whose clock jumps is granted nothing by it, in either store', async (t) => {
    const { now } = Date;
    t.teardown(() => void (Date.now = now));
    const stores = {
      redis: redisStore(plainExecutor(server.client)),
      memory: memoryStore({ clock: steadyClock }),
    };
    for (const [kind, own] of Object.entries(stores)) {
      for (const algorithm of names) {
        const hour = 3_600_000;
        const check = { algorithm, limit: 20, burst: 20, windowMs: hour, cost: 1 };
        let allowed = 0;
        for (let call = 0; call < 200; call++) {
          Date.now = () => now() + ((call * 7) % 11) * hour - 5 * hour;
          const [result] = await own.checkAll([{ ...check, key: `rl:jump:{${kind}}:${algorithm}` }]);
          if (result?.allowed === true) allowed++;
        }
        // Where a window may turn in mid-run, by the clock of Redis, that is once.
        ok(allowed >= 20 && allowed <= (algorithm === 'fixed-window' ? 40 : 21), `${kind} ${algorithm}: ${allowed}`);
      }
    }
  });

  await t.test('no key is left without a TTL', async (t) => {
    t.same(await keysWithoutTtl(server), []);
    t.ok((await server.client.dbsize()) > 0, 'there were keys to look at');
  });
});

async function keysWithoutTtl({ client }: RedisServer): Promise<string[]> {
  const keys = await client.keys('*');
  const ttls = await Promise.all(keys.map((key) => client.pttl(key)));
  return keys.filter((_, at) => (ttls[at] ?? -1) === -1);
}
