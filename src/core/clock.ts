/** Time as an argument: pure code never asks the machine. */
export type Clock = {
  /** Wall clock in whole milliseconds since the epoch. */
  nowMs(): number;
};

export const systemClock: Clock = { nowMs: () => Date.now() };
