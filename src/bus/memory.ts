/**
 * The bus inside one process: what the workers of a gate without Kafka hand to the supervisor's correlator.
 * Bounded: where nobody reads in time the least important observations go first. Offsets live as long as the
 * process.
 */
import { systemClock, type Clock } from '../core/clock.js';
import { zeros } from '../core/counts.js';
import { observationOf, type Observation } from '../core/observation.js';
import { textHash } from '../structures/text-hash.js';
import {
  DROP_CAUSES,
  REJECTS,
  type Consumer,
  type Publisher,
  type Reject,
  type Sink,
} from './bus-contract.js';
import { decodeText } from './decode.js';
import { keyOf } from './key.js';
import { createLanes, importanceOfRefusal, type Item, type Lanes } from './lanes.js';
import { LOOP_DEFAULTS, TakeLoop, type LoopOptions } from './take-loop.js';

export type MemoryBusOptions = Readonly<{
  partitions?: number;
  /** Observations that wait at most, over all partitions. */
  queueEvents?: number;
  clock?: Clock;
  loop?: Partial<LoopOptions>;
}>;

export type MemoryBus = Readonly<{
  publisher(): Publisher;
  /** The way in for what a worker has projected already. Never throws, never waits. */
  offer(observation: Observation): void;
  /** A message as it would lie on a topic. */
  offerText(key: string, text: string): void;
  consumer(group?: string): Consumer;
  /** Observations that waited for too long and gave way. */
  dropped(): number;
}>;

type Entry = Item & Readonly<{ content: Observation | Reject }>;
/** `next`: the offset that the next message gets. */
type Partition = { readonly lanes: Lanes<Entry>; next: number };
type Member = Readonly<{ loop: TakeLoop; reads: Map<number, number> }>;
type Group = {
  readonly committed: number[];
  readonly members: Set<Member>;
  moves: Promise<void>;
  epoch: number;
};

/** One observation with its texts. */
const ENTRY_BYTES = 500;
const FETCH_MAX = 1_000;

export function createMemoryBus(options: MemoryBusOptions = {}): MemoryBus {
  const { partitions: count = 12, queueEvents = 100_000, clock = systemClock } = options;
  const perPartition = Math.max(1, Math.floor(queueEvents / count));
  const partitions = Array.from({ length: count }, (): Partition => {
    const bounds = { count: perPartition, bytes: perPartition * ENTRY_BYTES };
    return { lanes: createLanes<Entry>(bounds), next: 0 };
  });
  const loop = { ...LOOP_DEFAULTS, ...options.loop };
  const waiting = (): number => partitions.reduce((sum, { lanes }) => sum + lanes.count(), 0);
  const groups = new Map<string, Group>();
  const counts = { delivered: 0, full: 0, closed: 0 };
  const dirty = new Set<number>();

  const add = (key: string, content: Observation | Reject): void => {
    const at = textHash(key) % count;
    const partition = partitions[at]!;
    const importance = typeof content === 'string' ? 0 : importanceOfRefusal(content.refusal);
    counts.full += partition.lanes.add({ seq: partition.next++, bytes: ENTRY_BYTES, content }, importance);
    counts.delivered++;
    if (dirty.size === 0) setImmediate(spread);
    dirty.add(at);
  };
  const spread = (): void => {
    const touched = [...dirty];
    dirty.clear();
    for (const { members } of groups.values()) {
      for (const member of members) for (const at of touched) fill(member, partitions[at]!, at);
    }
  };
  const offer = (observation: Observation): void => add(keyOf(observation), observation);
  const group = (name: string): Group => {
    let found = groups.get(name);
    if (found === undefined) {
      found = { committed: partitions.map(() => 0), members: new Set(), moves: Promise.resolve(), epoch: 0 };
      groups.set(name, found);
    }
    return found;
  };
  const release = (at: number): void => {
    const read = [...groups.values()].map(({ committed }) => committed[at]!);
    partitions[at]!.lanes.release(Math.min(...read));
  };
  return {
    offer,
    offerText: (key, text) => add(key, decodeText(text, clock.nowMs())),
    publisher: () => memoryPublisher(offer, counts, waiting),
    consumer: (name = 'correlator') =>
      memoryConsumer({ group: group(name), partitions, release, loop }),
    dropped: () => counts.full,
  };
}

function memoryPublisher(
  offer: (observation: Observation) => void,
  counts: { delivered: number; full: number; closed: number },
  waiting: () => number,
): Publisher {
  let isOpen = true;
  return {
    publish(event) {
      // The kernel companion is another process: it has no memory bus.
      if ('kind' in event) return;
      if (isOpen) offer(observationOf(event));
      else counts.closed++;
    },
    stats: () => ({
      queued: waiting(),
      queuedBytes: waiting() * ENTRY_BYTES,
      delivered: counts.delivered,
      dropped: { ...zeros(DROP_CAUSES), full: counts.full, closed: counts.closed },
      connected: isOpen,
    }),
    async close() {
      isOpen = false;
      return 0;
    },
  };
}

/** Hands over what waits from where the member reads on, as far as it has room. */
function fill({ loop, reads }: Member, { lanes, next: end }: Partition, at: number): void {
  let next = reads.get(at);
  while (next !== undefined && next < end && !loop.isFull(at)) {
    const entries = lanes.from(next, FETCH_MAX);
    const last = entries.at(-1);
    next = entries.length < FETCH_MAX || last === undefined ? end : last.seq + 1;
    const messages = entries.map(({ seq, content }) => ({ offset: seq, value: content }));
    if (!loop.push(at, messages, { next, end })) return;
    reads.set(at, next);
  }
}

type ConsumerDeps = Readonly<{
  group: Group;
  partitions: readonly Partition[];
  release: (partition: number) => void;
  loop: LoopOptions;
}>;

function memoryConsumer({ group, partitions, release, loop: options }: ConsumerDeps): Consumer {
  let member: Member | undefined;
  let rebalances = 0;
  const open = (sink: Sink): Member => {
    const reads = new Map<number, number>();
    const loop: TakeLoop = new TakeLoop(
      sink,
      {
        async commit(offsets) {
          for (const [at, offset] of offsets) {
            group.committed[at] = Math.max(group.committed[at]!, Math.min(offset, partitions[at]!.next));
            release(at);
          }
        },
        async prepare(own) {
          reads.clear();
          for (const at of own) reads.set(at, group.committed[at]!);
        },
        async begin(at) {
          const next = reads.get(at)!;
          loop.push(at, [], { next, end: partitions[at]!.next });
          fill({ loop, reads }, partitions[at]!, at);
        },
        resume: (at) => fill({ loop, reads }, partitions[at]!, at),
        decode: (value) => value as Observation | Reject,
      },
      options,
    );
    return { loop, reads };
  };
  return {
    async start(sink) {
      if (member !== undefined) return;
      member = open(sink);
      group.members.add(member);
      rebalances++;
      await rebalance(group, partitions.length);
    },
    stats: () => ({
      connected: member !== undefined,
      partitions: member?.loop.partitions() ?? [],
      lag: member?.loop.lag(),
      taken: member?.loop.taken ?? 0,
      rejected: { ...(member?.loop.rejected ?? zeros(REJECTS)) },
      rebalances,
      failures: member?.loop.failures ?? 0,
    }),
    async close(ms) {
      if (member === undefined) return;
      group.members.delete(member);
      await member.loop.close(ms);
      await rebalance(group, partitions.length);
    },
  };
}

/** Everybody gives up what they had before anybody gets what they have now. */
function rebalance(group: Group, count: number): Promise<void> {
  const epoch = ++group.epoch;
  group.moves = group.moves.then(async () => {
    if (epoch !== group.epoch) return;
    const members = [...group.members];
    await Promise.all(members.map(({ loop }) => loop.assign([])));
    members.forEach(({ loop }, index) => {
      const own = Array.from({ length: count }, (_, at) => at).filter((at) => at % members.length === index);
      void loop.assign(own);
    });
  });
  return group.moves;
}
