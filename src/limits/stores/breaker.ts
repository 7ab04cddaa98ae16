/**
 * Circuit breaker: closed while calls succeed; open when too many in a row, or too large a part of the last
 * second, failed; half-open while probes have been answered and the part of requests let through grows. Pure:
 * time and chance are arguments. Source of the idea: Nygard, Release It!, 2007.
 */

export type BreakerState = 'closed' | 'half-open' | 'open';

export type BreakerOptions = Readonly<{
  /** Failures in a row that open it. */
  failures: number;
  /** Part of the calls of the window, from `SAMPLE_MIN` calls on. */
  ratio: number;
  /** Successful probes in a row that half-open it. */
  probes: number;
  /** How long the part let through grows from none to all, in milliseconds. */
  rampMs: number;
}>;

export type Breaker = Readonly<{
  state(): BreakerState;
  /** Whether a call may be made now. `chance`: from 0 to 1. */
  admits(nowMs: number, chance: number): boolean;
  success(nowMs: number): void;
  failure(nowMs: number): void;
  trip(): void;
  /** What a probe came to while it was open. */
  probe(answered: boolean, nowMs: number): void;
}>;

const SLICES = 10;
const SLICE_MS = 100;
const SAMPLE_MIN = 20;
/** Where little is asked, so many failures over this long are enough. */
const SLOW_FAILURES = 3;
const SLOW_MS = 500;

export function createBreaker(options: BreakerOptions, onState: (state: BreakerState) => void): Breaker {
  const window = createWindow();
  let state: BreakerState = 'closed';
  let failedInRow = 0;
  let failingSinceMs = 0;
  let probesInRow = 0;
  let rampFromMs = 0;

  function become(next: BreakerState): void {
    if (state === next) return;
    state = next;
    failedInRow = 0;
    probesInRow = 0;
    window.clear();
    onState(next);
  }
  function tooMany(nowMs: number): boolean {
    if (state === 'half-open' || failedInRow >= options.failures) return true;
    if (failedInRow >= SLOW_FAILURES && nowMs - failingSinceMs >= SLOW_MS) return true;
    const { calls, failed } = window.sum(nowMs);
    return calls >= SAMPLE_MIN && failed / calls >= options.ratio;
  }
  return {
    state: () => state,
    admits(nowMs, chance) {
      if (state === 'closed') return true;
      if (state === 'open') return false;
      const elapsedMs = nowMs - rampFromMs;
      if (elapsedMs >= options.rampMs) {
        become('closed');
        return true;
      }
      return chance * options.rampMs < elapsedMs;
    },
    success(nowMs) {
      // What was sent before it opened and comes late is no reason to close.
      if (state === 'open') return;
      failedInRow = 0;
      window.add(nowMs, false);
    },
    failure(nowMs) {
      if (state === 'open') return;
      if (failedInRow++ === 0) failingSinceMs = nowMs;
      window.add(nowMs, true);
      if (tooMany(nowMs)) become('open');
    },
    trip: () => become('open'),
    probe(answered, nowMs) {
      if (state !== 'open') return;
      probesInRow = answered ? probesInRow + 1 : 0;
      if (probesInRow < options.probes) return;
      rampFromMs = nowMs;
      become(options.rampMs > 0 ? 'half-open' : 'closed');
    },
  };
}

/** Calls and failures of the last second, in slices of a tenth. */
function createWindow() {
  const calls = new Array<number>(SLICES).fill(0);
  const failed = new Array<number>(SLICES).fill(0);
  let last = 0;
  const turn = (nowMs: number): number => {
    const slice = Math.floor(nowMs / SLICE_MS);
    for (let at = Math.max(last + 1, slice - SLICES + 1); at <= slice; at++) {
      calls[at % SLICES] = 0;
      failed[at % SLICES] = 0;
    }
    last = Math.max(last, slice);
    return last % SLICES;
  };
  return {
    add(nowMs: number, failure: boolean): void {
      const at = turn(nowMs);
      calls[at] = (calls[at] ?? 0) + 1;
      if (failure) failed[at] = (failed[at] ?? 0) + 1;
    },
    sum(nowMs: number): { calls: number; failed: number } {
      turn(nowMs);
      const total = (of: readonly number[]): number => of.reduce((sum, one) => sum + one, 0);
      return { calls: total(calls), failed: total(failed) };
    },
    clear(): void {
      calls.fill(0);
      failed.fill(0);
    },
  };
}
