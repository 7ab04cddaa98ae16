/** A sink that remembers what it was told, for tests of buses. */
import type { Delivered, Sink } from './bus-contract.js';

export type RecordingSink = Sink &
  Readonly<{
    taken: Delivered[];
    /** Calls in order: `open 3`, `lost 1,2`, `settle`. */
    calls: string[];
    /** Request ids of what held an observation. */
    ids(): string[];
    /** From now on `settle` rejects, or no longer. */
    refuseSettling(refuse: boolean): void;
  }>;

export function recordingSink(more: Partial<Sink> = {}): RecordingSink {
  const taken: Delivered[] = [];
  const calls: string[] = [];
  const next = new Map<number, number>();
  let refuses = false;
  return {
    taken,
    calls,
    ids: () => taken.flatMap(({ content }) => (typeof content === 'string' ? [] : [content.requestId])),
    refuseSettling: (refuse) => void (refuses = refuse),
    async open(partition) {
      calls.push(`open ${partition}`);
      next.delete(partition);
    },
    take(delivered) {
      taken.push(delivered);
      next.set(delivered.partition, delivered.offset + 1);
    },
    async settle() {
      calls.push('settle');
      if (refuses) throw new Error('not now');
      return new Map(next);
    },
    lost(partitions) {
      calls.push(`lost ${partitions.join()}`);
      for (const partition of partitions) next.delete(partition);
    },
    ...more,
  };
}
