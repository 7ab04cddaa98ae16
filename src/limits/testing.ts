/** The shared table of timed calls, and how a test plays it against whatever answers checks. */
import { readFileSync } from 'node:fs';
import type { Test } from 'tap';
import type { State } from './algorithm.js';
import { algorithmNamed, algorithms } from './algorithms/index.js';
import type { AlgorithmName, Check, CheckResult } from './limiter-contract.js';
import { uncounted } from './uncounted.js';

/** `op` to ask with, and parts of the result to compare beside `allowed`. */
type Wanted = { op?: Check['op'] } & Partial<CheckResult>;
type Call = [atMs: number, cost: number, allowed: boolean, wanted?: Wanted];

type Case = Readonly<{
  title: string;
  algorithms?: AlgorithmName[];
  check: { limit: number; windowMs: number; burst?: number; delayMaxMs?: number };
  calls: Call[];
}>;

// JSON, so that nothing in it can depend on one implementation.
const cases = JSON.parse(
  readFileSync(new URL('./testdata/timed-calls.json', import.meta.url), 'utf8'),
) as Case[];

/** Answers one check at a given time. */
export type Ask = (check: Check, atMs: number) => CheckResult | Promise<CheckResult>;

/** The pure functions with states kept by key, all or nothing, as every store must do it; nothing else. */
export function purely(): (checks: readonly Check[], atMs: number) => CheckResult[] {
  const states = new Map<string, State>();
  return (checks, atMs) => {
    const steps = checks.map((check) => ({
      check,
      ...algorithmNamed(check.algorithm).step(states.get(check.key), check, atMs),
    }));
    const passes = steps.every(({ result }) => result.allowed);
    for (const { check, next } of steps) {
      const written = check.op === 'give' || (passes && check.op !== 'peek');
      if (!written || next === undefined) continue;
      if ((next[0] ?? 0) > atMs) states.set(check.key, next);
      else states.delete(check.key);
    }
    return steps.map(({ check, result }) => (passes ? result : uncounted(result, check)));
  };
}

/** Plays every case with every algorithm it is for. Times are moved by `baseMs`; 0 is no time for Redis. */
export async function playTable(t: Test, ask: Ask, baseMs = 1_000_000): Promise<void> {
  for (const { name } of algorithms) {
    for (const [at, { title, algorithms: only, check, calls }] of cases.entries()) {
      if (only !== undefined && !only.includes(name)) continue;
      await t.test(`${name}: ${title}`, async (t) => {
        const key = `k{${name}}${at}`;
        const base: Check = { key, algorithm: name, burst: check.limit, ...check, cost: 1 };
        for (const [atMs, cost, allowed, { op, ...wanted } = {}] of calls) {
          const result = await ask({ ...base, cost, ...(op ? { op } : {}) }, baseMs + atMs);
          t.match(result, { ...wanted, allowed }, `${op ?? 'take'} at ${atMs} ms with cost ${cost}`);
          const waits = allowed ? result.retryAfterMs === 0 : result.retryAfterMs > 0;
          t.ok(waits, 'a wait exactly where refused');
        }
      });
    }
  }
}

export type Hit = Readonly<{ atMs: number; cost: number }>;

/** What each promises for any span of windowMs. */
export const bounds: Record<AlgorithmName, (check: Check) => number> = {
  'fixed-window': ({ limit }) => 2 * limit,
  'sliding-log': ({ limit }) => limit,
  'sliding-counter': ({ limit }) => 2 * limit,
  'leaky-bucket': ({ limit, burst }) => burst + limit,
  'token-bucket': ({ limit, burst }) => burst + limit,
};

/** The most that was allowed in any half-open span of `spanMs` that ends with a hit. */
export function mostWithin(hits: readonly Hit[], spanMs: number): number {
  const sumAt = (end: number): number =>
    hits.reduce((sum, { atMs, cost }) => (atMs > end - spanMs && atMs <= end ? sum + cost : sum), 0);
  return Math.max(0, ...hits.map(({ atMs }) => sumAt(atMs)));
}
