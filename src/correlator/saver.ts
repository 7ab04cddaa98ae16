/**
 * Keeps the partitions' state where another process finds it: own ones are saved before their offsets are
 * committed, at most every second and never for more than a tenth of the time; those of others are read for
 * the evaluation. Without a store every offset counts as settled at once.
 */
import type { Partition } from './partition.js';
import type { Saved } from './detector.js';
import type { Position, StateStore } from './state-contract.js';

export type SaverStats = Readonly<{
  saved: number;
  /** Found that somebody else is further: this one lost the partition. */
  outrun: number;
  lastMs: number;
}>;

export type Saver = Readonly<{
  load(partition: number): Promise<Partition>;
  /** Answers the offsets that may be committed. Rejects with a Fault. */
  save(partitions: ReadonlyMap<number, Partition>): Promise<ReadonlyMap<number, number>>;
  /** Reads what others saved; true where something moved. Rejects with a Fault. */
  refresh(own: readonly number[]): Promise<boolean>;
  foreign(): readonly Partition[];
  stats(): SaverStats;
}>;

export type SaverDeps = Readonly<{
  states: StateStore | undefined;
  from: ReadonlyMap<number, Saved> | undefined;
  open: (saved?: Saved) => Partition;
  onTrouble: (text: string) => void;
  everyMs?: number;
}>;

const EVERY_MS = 1_000;
/** Saving may take a tenth of the time. */
const REST_FACTOR = 9;

export function createSaver(deps: SaverDeps): Saver {
  return deps.states === undefined ? unsaved(deps) : new Saving(deps, deps.states);
}

function unsaved({ open, from }: SaverDeps): Saver {
  return {
    load: async (partition) => open(from?.get(partition)),
    save: async (partitions) =>
      new Map([...partitions].map(([number, { nextOffset }]) => [number, nextOffset])),
    refresh: async () => false,
    foreign: () => [],
    stats: () => ({ saved: 0, outrun: 0, lastMs: 0 }),
  };
}

class Saving implements Saver {
  private readonly others = new Map<number, Partition>();
  private readonly committable = new Map<number, number>();
  private readonly positions = new Map<number, string>();
  private readonly tally = { saved: 0, outrun: 0, lastMs: 0 };
  private notBeforeMs = -Infinity;

  constructor(
    private readonly deps: SaverDeps,
    private readonly states: StateStore,
  ) {}

  async load(partition: number): Promise<Partition> {
    const stored = await this.states.load(partition);
    this.others.delete(partition);
    this.committable.delete(partition);
    this.positions.delete(partition);
    return this.deps.open(stored?.state);
  }

  async save(partitions: ReadonlyMap<number, Partition>): Promise<ReadonlyMap<number, number>> {
    const { everyMs = EVERY_MS } = this.deps;
    for (const number of this.committable.keys())
      if (!partitions.has(number)) this.committable.delete(number);
    const since = performance.now();
    if (since >= this.notBeforeMs) {
      for (const [number, partition] of partitions) await this.saveOne(number, partition);
      this.tally.lastMs = performance.now() - since;
      this.notBeforeMs = performance.now() + Math.max(everyMs, this.tally.lastMs * REST_FACTOR);
    }
    return new Map(this.committable);
  }

  private async saveOne(number: number, partition: Partition): Promise<void> {
    const position: Position = { epoch: partition.epoch, nextOffset: partition.nextOffset };
    const text = `${position.epoch} ${position.nextOffset}`;
    if (this.positions.get(number) === text || position.nextOffset === 0) return;
    const kept = await this.states.save({ partition: number, position, state: partition.save() });
    if (!kept) {
      this.tally.outrun++;
      this.committable.delete(number);
      this.deps.onTrouble(`partition ${number} is further elsewhere; nothing of it is committed here`);
      return;
    }
    this.tally.saved++;
    this.positions.set(number, text);
    this.committable.set(number, position.nextOffset);
  }

  async refresh(own: readonly number[]): Promise<boolean> {
    const known = new Map(
      [...this.others].map(([number, { epoch, nextOffset }]) => [number, { epoch, nextOffset }]),
    );
    const { moved, all } = await this.states.others(own, known);
    for (const { partition, state } of moved) this.others.set(partition, this.deps.open(state));
    for (const number of this.others.keys()) {
      if (own.includes(number) || !all.includes(number)) this.others.delete(number);
    }
    return moved.length > 0;
  }

  foreign(): readonly Partition[] {
    return [...this.others.values()];
  }

  stats(): SaverStats {
    return { ...this.tally };
  }
}
