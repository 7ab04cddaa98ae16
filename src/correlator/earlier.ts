/** What bans of the last while touched of the good traffic, as counted when each was made, by subject. */
import { LRUCache } from 'lru-cache';

/** Good requests: what the sample stands for, and how many of the sample those are. */
export type Touched = Readonly<{ weight: number; samples: number }>;

export const UNTOUCHED: Touched = { weight: 0, samples: 0 };

export type Earlier = Readonly<{
  add(name: string, touched: Touched, nowMs: number): void;
  /** All of them but those that `isOwn`. */
  sum(nowMs: number, isOwn: (name: string) => boolean): Touched;
}>;

/** Remembers each for `ms`, at most `max`; the oldest give way. */
export function createEarlier(ms: number, max: number): Earlier {
  const known = new LRUCache<string, Touched & { atMs: number }>({ max });
  return {
    add(name, touched, nowMs) {
      if (touched.samples > 0) known.set(name, { ...touched, atMs: nowMs });
    },
    sum(nowMs, isOwn) {
      let [weight, samples] = [0, 0];
      for (const [name, one] of known.entries()) {
        if (nowMs - one.atMs >= ms || isOwn(name)) continue;
        weight += one.weight;
        samples += one.samples;
      }
      return { weight, samples };
    },
  };
}
