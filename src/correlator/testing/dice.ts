/** Seeded dice (mulberry32), so that made traffic is the same in every run and on every machine. */

export type Dice = Readonly<{
  /** From 0 (with) to 1 (without). */
  next(): number;
  /** Whole, from 0 to `below` (without). */
  int(below: number): number;
  between(low: number, high: number): number;
  chance(probability: number): boolean;
  pick<T>(list: readonly T[]): T;
  /** By share; shares need not add up to 1. */
  weighted<T>(list: readonly (readonly [T, number])[]): T;
  /** Waits between things that do not know of each other. */
  exponential(mean: number): number;
  /** How long people take: mostly short, now and then very long. `sigma` about 0.8. */
  logNormal(median: number, sigma: number): number;
  hex(digits: number): string;
}>;

export function createDice(seed: number): Dice {
  let state = (seed ^ 0x9e3779b9) >>> 0;
  const next = (): number => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4_294_967_296;
  };
  const normal = (): number => Math.sqrt(-2 * Math.log(1 - next())) * Math.cos(2 * Math.PI * next());
  return {
    next,
    int: (below) => Math.floor(next() * below),
    between: (low, high) => low + (high - low) * next(),
    chance: (probability) => next() < probability,
    pick: (list) => list[Math.floor(next() * list.length)]!,
    weighted(list) {
      let left = next() * list.reduce((sum, [, share]) => sum + share, 0);
      return (list.find(([, share]) => (left -= share) < 0) ?? list.at(-1)!)[0];
    },
    exponential: (mean) => -mean * Math.log(1 - next()),
    logNormal: (median, sigma) => median * Math.exp(sigma * normal()),
    hex(digits) {
      let text = '';
      while (text.length < digits)
        text += Math.floor(next() * 0x100000000)
          .toString(16)
          .padStart(8, '0');
      return text.slice(0, digits);
    },
  };
}
