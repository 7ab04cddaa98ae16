/**
 * The bus between the gates and the correlator, as both sides see it; `memory.ts` and the Kafka pair keep it,
 * and one conformance suite holds them to it. The contract, not the work.
 */
import type { DecisionEvent } from '../core/event.js';
import type { KernelEvent } from '../core/kernel-event.js';
import type { Observation } from '../core/observation.js';

/** Why an event was lost before the bus had it. */
export const DROP_CAUSES = ['full', 'too-large', 'unavailable', 'closed'] as const;
export type DropCause = (typeof DROP_CAUSES)[number];

export type PublisherStats = Readonly<{
  /** Events that wait, and their size. */
  queued: number;
  queuedBytes: number;
  delivered: number;
  dropped: Readonly<Record<DropCause, number>>;
  connected: boolean;
}>;

export type Publisher = Readonly<{
  /**
   * Never throws, never waits. `line`: the event's JSON, where the caller has it already. When the bounded
   * queue is full the least important go first: passed ones before limited before refused ones.
   */
  publish(event: DecisionEvent | KernelEvent, line?: string): void;
  stats(): PublisherStats;
  /** Delivers what waits for at most `ms`; answers how many were lost at the end. */
  close(ms: number): Promise<number>;
}>;

/**
 * Why a message holds no usable observation: `late` and `repeated` are judged behind the bus, the others by
 * the decoder. `other` is no fault: events of another kind on the same topic.
 */
export const REJECTS = ['not-json', 'version', 'shape', 'future', 'too-large', 'other'] as const;
export type Reject = (typeof REJECTS)[number];

/** One message: offsets rise within a partition, with gaps. */
export type Delivered = Readonly<{
  partition: number;
  offset: number;
  /** The observation, or why there is none; the offset counts as read either way. */
  content: Observation | Reject;
}>;

/**
 * Who reads. Messages of one partition come in order and at least once (again after a crash or a rebalance
 * from the last commit on); those of several partitions come by event time as far as they wait side by side.
 */
export type Sink = Readonly<{
  /** Before the first message of a partition that was (re)assigned. A rejection stops and retries it. */
  open(partition: number): Promise<void>;
  /** Synchronous, never throws. */
  take(delivered: Delivered): void;
  /**
   * After some hundred messages or `settleEvery`, whichever is first, and before partitions are given up:
   * makes effects last. Answers, by partition, the next offset to read, to be committed; nothing is
   * committed where it rejects, and it is asked again; likewise where it answers less than it took.
   */
  settle(): Promise<ReadonlyMap<number, number>>;
  /** These partitions belong to somebody else now; what was not settled will be read there. */
  lost(partitions: readonly number[]): void;
}>;

export type ConsumerStats = Readonly<{
  connected: boolean;
  /** Partitions assigned now. */
  partitions: readonly number[];
  /** Messages that wait on the bus, over all assigned partitions; undefined while unknown. */
  lag: number | undefined;
  taken: number;
  rejected: Readonly<Record<Reject, number>>;
  rebalances: number;
  /** Times that `settle` or a commit failed and was tried again. */
  failures: number;
}>;

export type Consumer = Readonly<{
  /** Resolves once it reads, or has begun to try: a bus that is away is waited for with back-off. */
  start(sink: Sink): Promise<void>;
  stats(): ConsumerStats;
  /** Settles and commits once more (at most `ms`), then leaves. */
  close(ms: number): Promise<void>;
}>;
