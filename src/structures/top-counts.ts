/**
 * The most frequent keys of a stream with at most `keysMax` counters (Space-Saving, Metwally et al. 2005): a
 * new key takes over the counter that is lowest and starts from its count, so no count is too low and none is
 * too high by more than total/keysMax. Counts may be scaled down, so that old ones fade.
 */

export type TopCounts = {
  /** Adds `weight` (above 0). */
  add(key: string, weight: number): void;
  /** 0 for keys without a counter. Never below the truth, above it by `error` at most. */
  count(key: string): number;
  /** How much of a count may belong to keys that had the counter before. */
  error(key: string): number;
  /** Of all that was added. */
  total(): number;
  /** Multiplies every count by `factor` (0 to 1); counters that fall below `least` are given up. */
  fade(factor: number, least: number): void;
  size(): number;
  /** Counters taken over by another key. */
  displaced(): number;
  /** Key, count and error in turn, by falling count. */
  entries(): [key: string, count: number, error: number][];
  save(): SavedTopCounts;
};

export type SavedTopCounts = Readonly<{
  total: number;
  displaced: number;
  entries: readonly (readonly [string, number, number])[];
}>;

type Counter = { count: number; error: number };

export function openTopCounts(keysMax: number, saved?: SavedTopCounts): TopCounts {
  const counters = new Map<string, Counter>();
  let total = saved?.total ?? 0;
  let displaced = saved?.displaced ?? 0;
  for (const [key, count, error] of saved?.entries.slice(0, keysMax) ?? [])
    counters.set(key, { count, error });

  /** The lowest; of several the one that is smallest as text, so that a saved one goes on alike. */
  function lowest(): [string, Counter] {
    let found: [string, Counter] | undefined;
    for (const entry of counters) {
      if (found === undefined || entry[1].count < found[1].count) found = entry;
      else if (entry[1].count === found[1].count && entry[0] < found[0]) found = entry;
    }
    return found!;
  }

  return {
    add(key, weight) {
      total += weight;
      const counter = counters.get(key);
      if (counter !== undefined) {
        counter.count += weight;
        return;
      }
      if (counters.size < keysMax) {
        counters.set(key, { count: weight, error: 0 });
        return;
      }
      const [old, { count }] = lowest();
      counters.delete(old);
      displaced++;
      counters.set(key, { count: count + weight, error: count });
    },
    count: (key) => counters.get(key)?.count ?? 0,
    error: (key) => counters.get(key)?.error ?? 0,
    total: () => total,
    fade(factor, least) {
      total *= factor;
      for (const [key, counter] of counters) {
        counter.count *= factor;
        counter.error *= factor;
        if (counter.count < least) counters.delete(key);
      }
    },
    size: () => counters.size,
    displaced: () => displaced,
    entries: () =>
      [...counters]
        .map(([key, { count, error }]): [string, number, number] => [key, count, error])
        .sort((a, b) => b[1] - a[1] || (a[0] < b[0] ? -1 : 1)),
    save() {
      const entries = [...counters].map(([key, { count, error }]): [string, number, number] => [
        key,
        count,
        error,
      ]);
      return { total, displaced, entries };
    },
  };
}
