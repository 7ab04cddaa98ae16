/**
 * Counts hot keys in this process and settles with the store once per key and interval, in place of one call
 * a request. Bound: what is passed and not yet settled is at most floor(overshoot × limit / peers) in each of
 * `peers` processes, so that all of them together pass at most `overshoot` × limit above what the algorithm
 * itself allows (see hot-key.ts); one process alone passes nothing above it.
 */
import type { Clock } from '../../core/clock.js';
import type { Check, CheckResult, CounterStore } from '../limiter-contract.js';
import { createHotKeys, isCacheable, type HotKeys } from './hot-key.js';

export type HotKeyCacheOptions = Readonly<{
  clock: Clock;
  /** Processes that count the same keys now: nodes × workers. From 1. */
  peers: () => number;
  /** Milliseconds between two settlements of one key. */
  syncMs: number;
  /** A key is hot once it was seen more often than this within one interval. */
  hotAfter: number;
  /** Hot keys held at most; the others go to the store each time. */
  keysMax: number;
  /** Share of the limit, 0 to 1, that all peers together may pass above it. */
  overshoot: number;
  /** Told of each settlement that failed. */
  onFault?: (fault: unknown) => void;
}>;

export type HotKeyCacheStats = Readonly<{
  keys: number;
  /** Checks answered here. */
  local: number;
  /** Settlements sent. */
  settled: number;
  /** Passed here, but no longer countable since the store failed at settling. */
  lost: number;
  /** Passed here above the limit; taken from the allowance that comes next. */
  owed: number;
  /** Keys that were hot while the cache was full. */
  full: number;
}>;

export type HotKeyCache = CounterStore &
  Readonly<{
    /** Settles whatever is open now; resolves when the store has answered, and never rejects. */
    settle(): Promise<void>;
    stats(): HotKeyCacheStats;
  }>;

/**
 * `hotKeyCache(store, …)` is a store. Only checks marked `cached` are counted here; never the sliding log, a
 * shaping bucket, `peek` or `give`, which find everything settled that was counted here before them.
 */
export function hotKeyCache(store: CounterStore, options: HotKeyCacheOptions): HotKeyCache {
  const keys = createHotKeys(store, options);
  const timer = setInterval(() => void keys.tick(), options.syncMs);
  timer.unref();
  const { forget } = store;
  return {
    checkAll(checks) {
      keys.tickIfDue();
      const concerned = checks.some(isCacheable) || keys.holdsAny(checks);
      return concerned ? through(store, keys, checks) : store.checkAll(checks);
    },
    ...(forget === undefined
      ? {}
      : {
          async forget(names: readonly string[]) {
            await keys.settleAll();
            keys.drop(names);
            return forget.call(store, names);
          },
        }),
    settle: () => keys.settleAll(),
    stats: keys.stats,
    async close() {
      clearInterval(timer);
      await keys.settleAll();
      await store.close();
    },
  };
}

/** What can be said here is said here, and taken back where the store refuses the rest of the request. */
function through(
  store: CounterStore,
  keys: HotKeys,
  checks: readonly Check[],
): CheckResult[] | Promise<CheckResult[]> {
  const here = checks.map((check) => keys.judge(check));
  const refusedHere = here.some((result) => result?.allowed === false);
  const asked = checks.filter((_, at) => here[at] === undefined);
  const conclude = (pass: boolean): void =>
    checks.forEach((check, at) => {
      if (here[at]?.allowed === true) keys.conclude(check, pass);
    });
  if (refusedHere) {
    conclude(false);
    return checks.map((check, at) => here[at] ?? keys.guess(check));
  }
  if (asked.length === 0) {
    conclude(true);
    return here as CheckResult[];
  }
  const ticket = keys.beforeAsking(asked);
  const finish = (answers: readonly CheckResult[]): CheckResult[] => {
    conclude(answers.every((answer) => answer.allowed));
    keys.learn(asked, answers, ticket);
    let next = 0;
    return here.map((result, at) => result ?? answers[next++] ?? keys.guess(checks[at]!));
  };
  const giveUp = (error: unknown): never => {
    conclude(false);
    keys.learn(asked, undefined, ticket);
    throw error;
  };
  let answers: CheckResult[] | Promise<CheckResult[]>;
  try {
    answers = store.checkAll(asked);
  } catch (error) {
    return giveUp(error);
  }
  return answers instanceof Promise ? answers.then(finish, giveUp) : finish(answers);
}
