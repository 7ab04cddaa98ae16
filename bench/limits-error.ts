/**
 * How far each algorithm is from the exact log: the same schedule through both, each with its own state.
 * Counted are decisions that differ (under lasting overload mere phase: which hits pass, not how many), hits
 * passed in all, and the most that passed in any window.
 * `node dist/bench/limits-error.js [series.csv.gz]`: the series is `minute,count`, recorded requests a minute.
 */
import { readFileSync } from 'node:fs';
import { gunzipSync } from 'node:zlib';
import { algorithmNamed, algorithms } from '../src/limits/algorithms/index.js';
import type { State } from '../src/limits/algorithm.js';
import type { AlgorithmName, Check } from '../src/limits/limiter-contract.js';

const LIMIT = 600;
const WINDOW_MS = 60_000;
const HOURS = 1;
const CLIENTS = 300;
const RECORDED_MINUTES = 20_000;

/** One client's stamps in milliseconds, or many clients'. */
type Schedule = Readonly<{ name: string; clients: readonly Float64Array[] }>;
type Dice = () => number;

/** Mulberry32: the same schedules in every run. */
function dice(seed: number): Dice {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

/** Arrivals with exponential gaps; `rateAt` in hits a minute. */
function poisson(throwDice: Dice, rateAt: (ms: number) => number, untilMs: number): Float64Array {
  const stamps: number[] = [];
  for (let ms = 0; ms < untilMs;) {
    const rate = Math.max(0.01, rateAt(ms));
    ms += (-Math.log(1 - throwDice()) * 60_000) / rate;
    stamps.push(Math.floor(ms));
  }
  return Float64Array.from(stamps);
}

function randomSchedules(): Schedule[] {
  const untilMs = HOURS * 3_600_000;
  const even = [0.5, 0.9, 1, 1.1, 2, 5].map((factor) => ({
    name: `even, ${factor} × the limit`,
    clients: [poisson(dice(factor * 1000), () => factor * LIMIT, untilMs)],
  }));
  const swing = (ms: number): number => LIMIT * (0.8 + 0.5 * Math.sin(ms / 600_000));
  const bursts = (ms: number): number => (ms % 47_000 < 6_000 ? 5 * LIMIT : 0.1 * LIMIT);
  return [
    ...even,
    { name: 'swings between 0.3 and 1.3 ×', clients: [poisson(dice(7), swing, untilMs)] },
    { name: '6 s at 5 ×, then 41 s at 0.1 ×', clients: [poisson(dice(8), bursts, untilMs)] },
    { name: `${CLIENTS} clients, few of them over`, clients: population(untilMs) },
  ];
}

/** Rates spread log-normally around a twentieth of the limit: about one client in twenty exceeds it. */
function population(untilMs: number): Float64Array[] {
  const rates = dice(10);
  return Array.from({ length: CLIENTS }, (_, client) => {
    const normal = Math.sqrt(-2 * Math.log(1 - rates())) * Math.cos(2 * Math.PI * rates());
    const rate = Math.min(5, 0.05 * Math.exp(1.8 * normal)) * LIMIT;
    return poisson(dice(1000 + client), () => rate, untilMs);
  });
}

/** The recorded series scaled so that its busiest hundredth of minutes is over the limit. */
function recorded(file: string): Schedule {
  const rows = gunzipSync(readFileSync(file)).toString().trim().split('\n').slice(1);
  const counts = rows.map((row) => Number(row.slice(row.lastIndexOf(',') + 1)));
  const busy = [...counts].sort((a, b) => a - b)[Math.floor(counts.length * 0.99)] ?? 1;
  const rateAt = (ms: number): number => ((counts[Math.floor(ms / 60_000)] ?? 0) * LIMIT) / busy;
  const untilMs = Math.min(counts.length, RECORDED_MINUTES) * 60_000;
  return { name: 'recorded series', clients: [poisson(dice(9), rateAt, untilMs)] };
}

type Outcome = Readonly<{ passed: Uint8Array; total: number; peak: number }>;

function run(name: AlgorithmName, stamps: Float64Array): Outcome {
  const { step } = algorithmNamed(name);
  const check: Check = {
    key: 'k',
    algorithm: name,
    limit: LIMIT,
    windowMs: WINDOW_MS,
    burst: LIMIT,
    cost: 1,
  };
  const passed = new Uint8Array(stamps.length);
  let state: State | undefined;
  let [total, peak, tail, inside] = [0, 0, 0, 0];
  for (let index = 0; index < stamps.length; index++) {
    const nowMs = stamps[index]!;
    if (state !== undefined && state[0]! <= nowMs) state = undefined;
    const { result, next } = step(state, check, nowMs);
    state = next;
    for (; stamps[tail]! <= nowMs - WINDOW_MS; tail++) inside -= passed[tail]!;
    if (!result.allowed) continue;
    passed[index] = 1;
    total++;
    inside++;
    if (inside > peak) peak = inside;
  }
  return { passed, total, peak };
}

type Sum = { hits: number; differing: number; passed: number; passedByLog: number; peak: number };

function compare({ name: title, clients }: Schedule): void {
  const sums = new Map<AlgorithmName, Sum>();
  for (const stamps of clients) {
    const exact = run('sliding-log', stamps);
    for (const { name } of algorithms) {
      const own = name === 'sliding-log' ? exact : run(name, stamps);
      const sum = sums.get(name) ?? { hits: 0, differing: 0, passed: 0, passedByLog: 0, peak: 0 };
      sums.set(name, sum);
      sum.hits += stamps.length;
      for (let index = 0; index < stamps.length; index++) {
        if (own.passed[index] !== exact.passed[index]) sum.differing++;
      }
      sum.passed += own.total;
      sum.passedByLog += exact.total;
      sum.peak = Math.max(sum.peak, own.peak / LIMIT);
    }
  }
  for (const [name, sum] of sums) {
    const share = ((100 * sum.differing) / sum.hits).toFixed(3);
    const more = ((100 * (sum.passed - sum.passedByLog)) / sum.passedByLog).toFixed(3);
    console.log(`| ${title} | ${name} | ${share} | ${more} | ${sum.peak.toFixed(2)} |`);
  }
}

console.log(`\n## Limits: error against the exact log (limit ${LIMIT} a minute)\n`);
console.log('| schedule | algorithm | decisions that differ, % | hits passed against the log, % | most in a window |');
console.log('|---|---|---|---|---|');
const [series] = process.argv.slice(2);
for (const schedule of [...randomSchedules(), ...(series === undefined ? [] : [recorded(series)])]) {
  compare(schedule);
}
