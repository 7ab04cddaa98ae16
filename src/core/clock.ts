/** Time as an argument: pure code never asks the machine. */
export type Clock = {
  /** Wall clock in whole milliseconds since the epoch. */
  nowMs(): number;
};

export const systemClock: Clock = { nowMs: () => Date.now() };

/**
 * Starts at the wall clock and then never steps, forward or back: for counters, where a correction of the
 * machine's time would free or shut out clients. Drifts from the wall clock by as much as that was corrected
 * since the start.
 */
export const steadyClock: Clock = { nowMs: () => Math.floor(performance.timeOrigin + performance.now()) };
