import fc from 'fast-check';
import t from 'tap';
import type { State } from '../algorithm.js';
import type { Check } from '../limiter-contract.js';
import { bounds, mostWithin, playTable, purely, type Hit } from '../testing.js';
import { algorithmNamed, algorithms } from './index.js';

void t.test('the shared table of timed calls', (t) => {
  const ask = purely();
  return playTable(t, (check, atMs) => ask([check], atMs)[0]!);
});

const schedule = fc.array(
  fc.record({
    gapMs: fc.oneof(fc.constant(0), fc.nat(40), fc.nat(900)),
    cost: fc.integer({ min: 1, max: 3 }),
  }),
  {
    maxLength: 150,
    size: 'max',
  },
);
const shape = fc.record({
  limit: fc.integer({ min: 1, max: 12 }),
  windowMs: fc.integer({ min: 1, max: 700 }),
  burst: fc.integer({ min: 1, max: 15 }),
});

for (const { name, step } of algorithms) {
  const play = (calls: readonly Hit[], check: Check): Hit[] => {
    let state: State | undefined;
    const hits: Hit[] = [];
    for (const { atMs, cost } of calls) {
      const { result, next } = step(state, { ...check, cost }, atMs);
      if (!result.allowed) continue;
      state = next;
      hits.push({ atMs, cost });
    }
    return hits;
  };

  t.test(`${name}: no schedule of calls beats its bound`, async () => {
    fc.assert(
      fc.property(schedule, shape, (gaps, given) => {
        const check: Check = { key: 'k', algorithm: name, cost: 1, ...given };
        let atMs = 1_000_000;
        const calls = gaps.map(({ gapMs, cost }) => ({ atMs: (atMs += gapMs), cost }));
        return mostWithin(play(calls, check), check.windowMs) <= bounds[name](check);
      }),
    );
  });

  t.test(`${name}: a clock that steps back never grants more than one that stands still`, async () => {
    fc.assert(
      fc.property(fc.array(fc.nat(2000), { maxLength: 60, size: 'max' }), shape, (backMs, given) => {
        const check: Check = { key: 'k', algorithm: name, cost: 1, ...given };
        const still = play(
          backMs.map(() => ({ atMs: 5000, cost: 1 })),
          check,
        );
        const back = play(
          [{ atMs: 5000, cost: 1 }, ...backMs.slice(1).map((ms) => ({ atMs: 5000 - ms, cost: 1 }))],
          check,
        );
        return back.length <= Math.max(1, still.length);
      }),
    );
  });

  t.test(
    `${name}: waiting as long as told is enough, and state expires no earlier than it is worthless`,
    async () => {
      fc.assert(
        fc.property(schedule, shape, (gaps, given) => {
          const check: Check = { key: 'k', algorithm: name, cost: 1, ...given };
          let state: State | undefined;
          let atMs = 1_000_000;
          for (const { gapMs } of gaps) {
            const { result, next } = step(state, check, (atMs += gapMs));
            if (result.allowed) state = next;
            else if (!step(state, check, atMs + result.retryAfterMs).result.allowed) return false;
            const expiryMs = state?.[0] ?? 0;
            if (state !== undefined) {
              const worn = step(state, check, expiryMs).result;
              const fresh = step(undefined, check, expiryMs).result;
              if (worn.remaining !== fresh.remaining || worn.allowed !== fresh.allowed) return false;
            }
          }
          return true;
        }),
      );
    },
  );
}

const long = { maxLength: 150, size: 'max' } as const;
const op = fc.constantFrom<NonNullable<Check['op']>[]>('take', 'take', 'peek', 'give');

for (const { name } of algorithms) {
  t.test(`${name}: peeks and what is given back in the same moment do not widen its bound`, async () => {
    fc.assert(
      fc.property(fc.array(fc.tuple(fc.nat(300), op), long), shape, (calls, given) => {
        const ask = purely();
        const check: Check = { key: 'k', algorithm: name, cost: 1, ...given };
        let atMs = 1_000_000;
        const hits: Hit[] = [];
        for (const [gapMs, what] of calls) {
          atMs += gapMs;
          const allowed = ask([{ ...check, op: what === 'peek' ? 'peek' : 'take' }], atMs)[0]!.allowed;
          if (!allowed || what === 'peek') continue;
          if (what === 'give') ask([{ ...check, op: 'give' }], atMs);
          else hits.push({ atMs, cost: 1 });
        }
        return mostWithin(hits, check.windowMs) <= bounds[name](check);
      }),
    );
  });
}

t.test('a shaping leaky bucket lets nothing go on sooner than it leaks', async () => {
  fc.assert(
    fc.property(schedule, shape, fc.integer({ min: 1, max: 2000 }), (gaps, given, delayMaxMs) => {
      const ask = purely();
      const { limit, windowMs } = given;
      let atMs = 1_000_000;
      let free = 0;
      for (const { gapMs, cost } of gaps) {
        atMs += gapMs;
        const check: Check = { key: 'k', algorithm: 'leaky-bucket', cost, delayMaxMs, ...given };
        const { allowed, delayMs = 0 } = ask([check], atMs)[0]!;
        if (!allowed) continue;
        // A thousandth for the fractions that `free` adds up.
        if (delayMs > delayMaxMs || atMs + delayMs < free - 0.001) return false;
        free = Math.max(free, atMs) + (cost * windowMs) / limit;
      }
      return true;
    }),
  );
});

type Compared = { different: number; total: number; byCounter: number; byLog: number };

/** The same arrivals (exponential gaps) to the counter and the log, 100 a minute, over ten minutes. */
function compare(clients: number, meanGapMs: (random: number) => number): Compared {
  const check: Check = {
    key: 'k',
    algorithm: 'sliding-counter',
    limit: 100,
    windowMs: 60_000,
    burst: 100,
    cost: 1,
  };
  const seen: Compared = { different: 0, total: 0, byCounter: 0, byLog: 0 };
  let seed = 7;
  const random = (): number => (seed = (seed * 48_271) % 2_147_483_647) / 2_147_483_647;
  for (let client = 0; client < clients; client++) {
    const gapMs = meanGapMs(random());
    let [a, b]: [State | undefined, State | undefined] = [undefined, undefined];
    for (let atMs = 0; atMs < 600_000; atMs -= gapMs * Math.log(1 - random() * 0.9999)) {
      const counter = algorithmNamed('sliding-counter').step(a, check, Math.floor(atMs));
      const log = algorithmNamed('sliding-log').step(b, check, Math.floor(atMs));
      a = counter.result.allowed ? counter.next : a;
      b = log.result.allowed ? log.next : b;
      seen.total++;
      if (counter.result.allowed) seen.byCounter++;
      if (log.result.allowed) seen.byLog++;
      if (counter.result.allowed !== log.result.allowed) seen.different++;
    }
  }
  return seen;
}

t.test(
  'the sliding counter differs from the log in at most 0.4 % of decisions on clients within the limit',
  async (t) => {
    const { different, total } = compare(200, (random) => 700 + 20_000 * random ** 2);
    t.ok(different / total <= 0.004, `${different} of ${total}`);
  },
);

t.test('the sliding counter gives a flood no more than the log does over time', async (t) => {
  const { byCounter, byLog } = compare(20, (random) => 100 + 300 * random);
  t.ok(byCounter <= byLog * 1.01, `${byCounter} against ${byLog}`);
});
