/**
 * A window over event time in buckets: what is younger than `keep` buckets before the latest time seen. Has
 * no clock; time moves with the events alone, and events of bounded lateness still find their bucket.
 */

export type TimeBuckets<T> = {
  /** The bucket of a time; undefined for what is older than the window. Makes room first: see `onLeave`. */
  at(timeMs: number): T | undefined;
  /** Start and content of those that begin after `sinceMs`, oldest first. */
  since(sinceMs: number): [startMs: number, T][];
  /** Takes the oldest out before its time; false where that is the bucket of `keptMs`. */
  giveUpOldest(keptMs: number): boolean;
  all(): readonly (readonly [startMs: number, T])[];
};

export type TimeBucketsOptions<T> = Readonly<{
  bucketMs: number;
  keep: number;
  make: () => T;
  /** Told of each bucket that leaves the window, oldest first. */
  onLeave?: (bucket: T, startMs: number) => void;
  /** Buckets as saved, by rising start. */
  saved?: readonly (readonly [startMs: number, T])[];
}>;

export function openTimeBuckets<T>(options: TimeBucketsOptions<T>): TimeBuckets<T> {
  const { bucketMs, keep, make, onLeave } = options;
  const buckets: [number, T][] = (options.saved ?? []).map(([startMs, bucket]) => [startMs, bucket]);
  let latest = buckets.at(-1);

  function leave(): void {
    const [startMs, bucket] = buckets.shift()!;
    onLeave?.(bucket, startMs);
  }

  function insert(startMs: number): T | undefined {
    const newest = Math.max(startMs, latest?.[0] ?? startMs);
    if (startMs <= newest - keep * bucketMs) return undefined;
    while (buckets.length > 0 && buckets[0]![0] <= newest - keep * bucketMs) leave();
    const place = buckets.findIndex(([other]) => other > startMs);
    const made: [number, T] = [startMs, make()];
    if (place < 0) buckets.push(made);
    else buckets.splice(place, 0, made);
    latest = buckets.at(-1);
    return made[1];
  }

  return {
    at(timeMs) {
      if (latest !== undefined && timeMs >= latest[0] && timeMs < latest[0] + bucketMs) return latest[1];
      const startMs = Math.floor(timeMs / bucketMs) * bucketMs;
      const found = buckets.find(([other]) => other === startMs);
      return found === undefined ? insert(startMs) : found[1];
    },
    since: (sinceMs) => buckets.filter(([startMs]) => startMs > sinceMs),
    giveUpOldest(keptMs) {
      const [oldest] = buckets;
      if (oldest === undefined || keptMs < oldest[0] + bucketMs) return false;
      leave();
      return true;
    },
    all: () => buckets,
  };
}
