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
import { uncounted } from '../uncounted.js';

const SWEEP_PER_CALL = 2;
const EVICTION_SAMPLE = 16;
/** Share of the store that keys under refusal may take out of reach of eviction. */
const HELD_SHARE = 0.5;

export type MemoryStoreStats = Readonly<{ keys: number; expired: number; evicted: number }>;

export type MemoryStore = Omit<CounterStore, 'checkAll' | 'forget'> &
  Readonly<{
    checkAll(checks: readonly Check[]): CheckResult[];
    forget(keys: readonly string[]): number;
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
    forget: (keys) => keys.filter((key) => table.drop(key)).length,
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
  const next: (State | undefined)[] = [];
  let refusals = 0;
  for (const check of checks) {
    const outcome = algorithmNamed(check.algorithm).step(table.get(check.key, nowMs), check, nowMs);
    results.push(outcome.result);
    next.push(outcome.next);
    if (!outcome.result.allowed) {
      refusals++;
      table.hold(check.key, nowMs + outcome.result.retryAfterMs);
    }
  }
  checks.forEach((check, at) => {
    const state = next[at];
    const written = check.op === 'give' || (refusals === 0 && check.op !== 'peek');
    if (written && state !== undefined) table.put(check.key, state, nowMs);
  });
  if (refusals === 0 || refusals === checks.length) return results;
  return results.map((result, at) => uncounted(result, checks[at]));
}

type Table = ReturnType<typeof createTable>;

function createTable(keysMax: number) {
  const states = new Map<string, State>();
  const advance = createHand(states);
  const held = createHeld(Math.floor(keysMax * HELD_SHARE));
  let expired = 0;
  let evicted = 0;

  function dropIfExpired([key, state]: Entry<State>, nowMs: number): boolean {
    if ((state[0] ?? 0) > nowMs) return false;
    states.delete(key);
    expired++;
    return true;
  }

  /** Looks at a sample, so that its cost is the same however many keys there are. */
  function evict(nowMs: number): void {
    let victim: Entry<State> | undefined;
    for (let seen = 0; seen < EVICTION_SAMPLE; seen++) {
      const entry = advance();
      if (entry === undefined) break;
      if (dropIfExpired(entry, nowMs)) return;
      if (victim === undefined || (entry[1][0] ?? 0) < (victim[1][0] ?? 0)) victim = entry;
    }
    if (victim === undefined) return;
    states.delete(victim[0]);
    evicted++;
  }

  return {
    get(key: string, nowMs: number): State | undefined {
      const state = states.get(key) ?? held.get(key);
      return state !== undefined && (state[0] ?? 0) > nowMs ? state : undefined;
    },
    /** After an allowed call: whoever was under refusal is no longer. */
    put(key: string, state: State, nowMs: number): void {
      held.delete(key);
      if (states.size + held.size() >= keysMax && !states.has(key)) evict(nowMs);
      states.set(key, state);
    },
    /** After a refused call: out of reach of eviction until the refusal is over. */
    hold(key: string, untilMs: number): void {
      const state = states.get(key);
      if (state !== undefined) {
        if (held.add(key, { state, untilMs })) states.delete(key);
      } else held.extend(key, untilMs);
    },
    /** True where the key was there. */
    drop(key: string): boolean {
      const wasHeld = held.delete(key);
      return states.delete(key) || wasHeld;
    },
    sweep(nowMs: number): void {
      const free = held.release(nowMs);
      if (free !== undefined) states.set(...free);
      for (let step = 0; step < SWEEP_PER_CALL; step++) {
        const entry = advance();
        if (entry === undefined) return;
        dropIfExpired(entry, nowMs);
      }
    },
    clear(): void {
      states.clear();
      held.clear();
    },
    stats: (): MemoryStoreStats => ({ keys: states.size + held.size(), expired, evicted }),
  };
}

type Entry<T> = [key: string, value: T];

/** Walks a map round and round, one entry a call; undefined while it is empty. */
function createHand<T>(map: ReadonlyMap<string, T>): () => Entry<T> | undefined {
  let hand = map.entries();
  return () => {
    let step = hand.next();
    if (step.done) {
      hand = map.entries();
      step = hand.next();
    }
    return step.done ? undefined : step.value;
  };
}

/** Keys under refusal, apart from the others so that eviction never has to step over them. */
function createHeld(max: number) {
  const entries = new Map<string, { state: State; untilMs: number }>();
  const advance = createHand(entries);
  return {
    size: (): number => entries.size,
    get: (key: string): State | undefined => entries.get(key)?.state,
    delete: (key: string): boolean => entries.size > 0 && entries.delete(key),
    clear: (): void => entries.clear(),
    /** False when full: the key stays where it can be evicted. */
    add(key: string, entry: { state: State; untilMs: number }): boolean {
      if (entries.size >= max) return false;
      entries.set(key, entry);
      return true;
    },
    extend(key: string, untilMs: number): void {
      const entry = entries.get(key);
      if (entry !== undefined) entry.untilMs = untilMs;
    },
    /** Looks at one key a call and gives it back when its refusal is over. */
    release(nowMs: number): Entry<State> | undefined {
      const entry = advance();
      if (entry === undefined || entry[1].untilMs > nowMs) return undefined;
      entries.delete(entry[0]);
      return [entry[0], entry[1].state];
    },
  };
}
