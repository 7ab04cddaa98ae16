/** When something last happened, by name: at most so many names, the oldest give way. */
import { LRUCache } from 'lru-cache';

export type Recent = Readonly<{
  /** True where it has not happened within `ms`; it happens now then. */
  isDue(name: string, nowMs: number): boolean;
  forget(name: string): void;
  names(nowMs: number): string[];
}>;

export function createRecent(ms: number, max: number): Recent {
  const times = new LRUCache<string, number>({ max });
  return {
    isDue(name, nowMs) {
      const last = times.get(name);
      if (last !== undefined && nowMs - last < ms) return false;
      times.set(name, nowMs);
      return true;
    },
    forget: (name) => void times.delete(name),
    names: (nowMs) => [...times.entries()].filter(([, at]) => nowMs - at < ms).map(([name]) => name),
  };
}
