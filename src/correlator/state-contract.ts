/** Where the state of partitions outlives a process. The contract, not the work. */
import type { Saved } from './detector.js';

/** Later is a higher epoch, or in the same one a higher offset. */
export type Position = Readonly<{ epoch: number; nextOffset: number }>;
export type StoredState = Readonly<{ partition: number; position: Position; state: Saved }>;

export type StateStore = Readonly<{
  /** Undefined where nothing is kept. Rejects with a Fault where the store is away. */
  load(partition: number): Promise<StoredState | undefined>;
  /** False where a later state is kept already: somebody else owns the partition. Rejects with a Fault. */
  save(stored: StoredState): Promise<boolean>;
  /** Those of other partitions that moved on since `known`; and which partitions there are at all. */
  others(
    own: readonly number[],
    known: ReadonlyMap<number, Position>,
  ): Promise<Readonly<{ moved: readonly StoredState[]; all: readonly number[] }>>;
}>;
