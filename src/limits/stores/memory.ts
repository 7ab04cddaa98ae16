/**
 * Counters in this process: one small array of numbers per key. Expiry is judged on read; a hand walks the
 * map a few entries a call, so nothing hangs on timers. When full, the entry nearest to its expiry goes, but
 * never one that is being refused right now: filling the store must not set an abuser free.
 */
import type { Clock } from '../../core/clock.js';
import { Fault } from '../../core/errors.js';
import type { State } from '../algorithm.js';
import { algorithmNamed } from '../algorithms/index.js';
import type { Check, CheckResult, CounterStore } from '../limiter-contract.js';

const SWEEP_PER_CALL = 2;
const EVICTION_SAMPLE = 16;
/** Share of the store that entries under refusal may protect. */
const PROTECTED_SHARE = 0.5;

export type MemoryStoreStats = Readonly<{ keys: number; expired: number; evicted: number }>;

export type MemoryStore = Omit<CounterStore, 'checkAll'> &
  Readonly<{
    checkAll(checks: readonly Check[]): CheckResult[];
    stats(): MemoryStoreStats;
  }>;

/** `keysMax`: from 1; about 200 bytes a key (sliding-log: 8 more per stamp). */
export function memoryStore({ clock, keysMax = 200_000 }: { clock: Clock; keysMax?: number }): MemoryStore {
  const table = createTable(keysMax);
  let closed = false;
  return {
    checkAll(checks) {
      if (closed) throw new Fault('STORE_CLOSED');
      return checkAgainst(table, checks, clock.nowMs());
    },
    stats: table.stats,
    async close() {
      closed = true;
      table.clear();
    },
  };
}

function checkAgainst(table: Table, checks: readonly Check[], nowMs: number): CheckResult[] {
  table.sweep(nowMs);
  const results: CheckResult[] = [];
  const next: State[] = [];
  let refusals = 0;
  for (const check of checks) {
    const outcome = algorithmNamed(check.algorithm).step(table.get(check.key, nowMs), check, nowMs);
    results.push(outcome.result);
    next.push(outcome.next);
    if (!outcome.result.allowed) {
      refusals++;
      table.protect(check.key, nowMs + outcome.result.retryAfterMs);
    }
  }
  if (refusals === 0) checks.forEach((check, at) => table.put(check.key, next[at] ?? [], nowMs));
  else if (refusals < checks.length) return results.map((result, at) => uncounted(result, checks[at]));
  return results;
}

/** What would have been allowed was not counted, since another check of the same request was refused. */
function uncounted(result: CheckResult, check: Check | undefined): CheckResult {
  return result.allowed ? { ...result, remaining: result.remaining + (check?.cost ?? 0) } : result;
}

type Table = ReturnType<typeof createTable>;

function createTable(keysMax: number) {
  const states = new Map<string, State>();
  const refusals = createRefusals(Math.floor(keysMax * PROTECTED_SHARE));
  const advance = createHand(states);
  let expired = 0;
  let evicted = 0;

  function remove(key: string): void {
    states.delete(key);
    refusals.forget(key);
  }

  function dropIfExpired([key, state]: Entry, nowMs: number): boolean {
    if ((state[0] ?? 0) > nowMs) return false;
    remove(key);
    expired++;
    return true;
  }

  /** Looks at a sample, so that its cost is the same however many keys are held. */
  function evict(nowMs: number): void {
    let victim: Entry | undefined;
    // Entries under refusal could fill a whole sample: go on until something may leave.
    for (let seen = 0; seen < EVICTION_SAMPLE || (victim === undefined && seen <= keysMax); seen++) {
      const entry = advance();
      if (entry === undefined || dropIfExpired(entry, nowMs)) return;
      if (refusals.holds(entry[0], nowMs)) continue;
      if (victim === undefined || (entry[1][0] ?? 0) < (victim[1][0] ?? 0)) victim = entry;
    }
    if (victim === undefined) return;
    remove(victim[0]);
    evicted++;
  }

  return {
    get(key: string, nowMs: number): State | undefined {
      const state = states.get(key);
      return state !== undefined && (state[0] ?? 0) > nowMs ? state : undefined;
    },
    put(key: string, state: State, nowMs: number): void {
      if (states.size >= keysMax && !states.has(key)) evict(nowMs);
      states.set(key, state);
    },
    protect(key: string, untilMs: number): void {
      if (states.has(key)) refusals.note(key, untilMs);
    },
    sweep(nowMs: number): void {
      for (let step = 0; step < SWEEP_PER_CALL; step++) {
        const entry = advance();
        if (entry === undefined) return;
        dropIfExpired(entry, nowMs);
      }
    },
    clear(): void {
      states.clear();
      refusals.clear();
    },
    stats: (): MemoryStoreStats => ({ keys: states.size, expired, evicted }),
  };
}

type Entry = [key: string, state: State];

/** Walks the map round and round, one entry a call; undefined while it is empty. */
function createHand(states: ReadonlyMap<string, State>): () => Entry | undefined {
  let hand = states.entries();
  return () => {
    let step = hand.next();
    if (step.done) {
      hand = states.entries();
      step = hand.next();
    }
    return step.done ? undefined : step.value;
  };
}

/** Which keys are being refused, and until when; the one noted first leaves when there are too many. */
function createRefusals(max: number) {
  const until = new Map<string, number>();
  return {
    note(key: string, untilMs: number): void {
      if (until.size >= max && !until.has(key)) {
        const first = until.keys().next();
        if (!first.done) until.delete(first.value);
      }
      if (max > 0) until.set(key, untilMs);
    },
    holds(key: string, nowMs: number): boolean {
      const untilMs = until.get(key);
      if (untilMs === undefined) return false;
      if (untilMs > nowMs) return true;
      until.delete(key);
      return false;
    },
    forget: (key: string): void => void until.delete(key),
    clear: (): void => until.clear(),
  };
}
