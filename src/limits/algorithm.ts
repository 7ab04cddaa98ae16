/**
 * The shape of a limiting algorithm: a pure function of state, check and time. Promises of every one: a
 * refused call leaves the state as it was; time going backwards never grants more; all arithmetic is on whole
 * numbers (tokens are held in units of 1/windowMs), so that the Lua twin gets the same results to the last
 * bit.
 */
import type { AlgorithmName, Check, CheckResult } from './limiter-contract.js';

/**
 * Compact on purpose. `[0]` is the time from which the state is worth the same as none; the rest is the
 * algorithm's.
 */
export type State = readonly number[];

/** `next` undefined: nothing was kept and nothing need be. */
export type Outcome = Readonly<{ result: CheckResult; next: State | undefined }>;

export type Algorithm = Readonly<{
  name: AlgorithmName;
  /**
   * `state` undefined: never seen, or expired. `nowMs`: whole milliseconds. A `peek` is reckoned like a
   * `take`; it is the caller who keeps or drops `next`. A `give` is always allowed.
   */
  step(state: State | undefined, check: Check, nowMs: number): Outcome;
}>;

/** Refused: the state as it was. */
export function refused(
  state: State | undefined,
  remaining: number,
  resetMs: number,
  retryAfterMs: number,
): Outcome {
  // A cost above what the limit can ever give never fits; the answer still names a finite wait.
  const wait = Math.max(1, Math.ceil(retryAfterMs));
  return {
    result: { allowed: false, remaining: Math.max(0, remaining), resetMs, retryAfterMs: wait },
    next: state,
  };
}

export function allowed(next: State | undefined, remaining: number, resetMs: number): Outcome {
  return { result: { allowed: true, remaining: Math.max(0, remaining), resetMs, retryAfterMs: 0 }, next };
}
