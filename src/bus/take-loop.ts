/**
 * What every consumer does between its bus and its sink, one thing at a time: opens partitions that came,
 * takes messages of all of them by event time, settles and commits now and then, gives partitions up. So no
 * sink ever sees a message of a partition that is not open, or a settlement that overlaps a loss.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { zeros } from '../core/counts.js';
import { REJECTS, type Reject, type Sink } from './bus-contract.js';
import { createSlot, type Decode, type Place, type Raw, type Slot } from './slot.js';

export type LoopSource = Readonly<{
  /** Makes these offsets last. A rejection is counted and tried again with the next settlement. */
  commit(offsets: ReadonlyMap<number, number>): Promise<void>;
  /**
   * Before any of them is opened: finds out where they are read on. Not later, since what the last owner
   * settled between would be missing in what `open` loads. A rejection is tried again.
   */
  prepare(partitions: readonly number[]): Promise<void>;
  /** After `open`: pushes where it reads on, messages from now on. A rejection is tried again. */
  begin(partition: number): Promise<void>;
  /** A partition that was full has room again. */
  resume(partition: number): void;
  decode: Decode;
}>;

export type LoopOptions = Readonly<{
  settleEveryMs: number;
  /** Messages after which it settles without waiting for the time. */
  settleMessages: number;
  /** How long others wait for a partition that is behind and has nothing here yet. */
  waitMs: number;
}>;

export const LOOP_DEFAULTS: LoopOptions = { settleEveryMs: 1_000, settleMessages: 10_000, waitMs: 500 };

const TURN_MESSAGES = 512;
const TURN_MS = 8;
const BACK_OFF_MS_MAX = 5_000;
const GIVE_UP_MS = 2_000;

export class TakeLoop {
  readonly rejected: Record<Reject, number> = zeros(REJECTS);
  taken = 0;
  failures = 0;
  private slots = new Map<number, Slot>();
  private pending: { partitions: readonly number[]; done: () => void } | undefined;
  private wakeUp: (() => void) | undefined;
  private sinceSettle = 0;
  /** Where each partition is taken on. */
  private readonly takenTo = new Map<number, number>();
  private settleAtMs = 0;
  private settleFailures = 0;
  private state: 'open' | 'closing' | 'closed' = 'open';
  private readonly ended: Promise<void>;

  constructor(
    private readonly sink: Sink,
    private readonly source: LoopSource,
    private readonly options: LoopOptions,
  ) {
    this.ended = this.run();
  }

  /**
   * These are ours now and none else; any that were ours before are given up first, those that stay too.
   * Resolves when they were.
   */
  assign(partitions: readonly number[]): Promise<void> {
    this.pending?.done();
    return new Promise((done) => {
      this.pending = { partitions, done };
      this.wake();
    });
  }

  /** Messages in order. False where nobody reads them. */
  push(partition: number, messages: readonly Raw[], place: Place): boolean {
    const slot = this.slots.get(partition);
    if (slot === undefined || !slot.open || this.state !== 'open') return false;
    slot.add(messages, place);
    this.wake();
    return true;
  }

  /** The partition has no room for more. */
  isFull(partition: number): boolean {
    return this.slots.get(partition)?.isFull() ?? true;
  }

  partitions(): number[] {
    return [...this.slots.keys()];
  }

  lag(): number | undefined {
    let lag = 0;
    for (const slot of this.slots.values()) {
      const own = slot.lag();
      if (own === undefined) return undefined;
      lag += own;
    }
    return lag;
  }

  /** Settles once more, for at most `ms`, and takes no more. */
  async close(ms: number): Promise<void> {
    if (this.state !== 'open') return;
    this.state = 'closing';
    this.wake();
    const untilMs = performance.now() + ms;
    await Promise.race([this.ended, pause(ms)]);
    if (performance.now() < untilMs && this.sinceSettle > 0)
      await Promise.race([this.settle(), pause(untilMs - performance.now())]);
    this.state = 'closed';
    this.giveUp();
  }

  private wake(): void {
    const wakeUp = this.wakeUp;
    this.wakeUp = undefined;
    wakeUp?.();
  }

  private async run(): Promise<void> {
    this.settleAtMs = performance.now() + this.options.settleEveryMs;
    while (this.state === 'open') {
      if (this.pending !== undefined) await this.adopt(this.pending);
      const waitMs = this.takeSome();
      if (this.state !== 'open' || this.pending !== undefined) continue;
      if (this.settleDue()) await this.settle();
      else if (waitMs === 0) await new Promise((resolve) => setImmediate(resolve));
      else await this.idle(Math.min(waitMs, Math.max(1, this.settleAtMs - performance.now())));
    }
    this.pending?.done();
  }

  private idle(ms: number): Promise<void> {
    return new Promise((resolve) => {
      const timer = setTimeout(() => this.wake(), ms);
      this.wakeUp = () => {
        clearTimeout(timer);
        resolve();
      };
    });
  }

  /** Gives up what was ours, opens what is now. Stops half-way where the next assignment is there already. */
  private async adopt(assignment: NonNullable<TakeLoop['pending']>): Promise<void> {
    if (this.slots.size > 0) {
      if (this.sinceSettle > 0) await Promise.race([this.settle(), pause(GIVE_UP_MS)]);
      this.giveUp();
    }
    const isCurrent = (): boolean => this.pending === assignment && this.state === 'open';
    this.slots = new Map(assignment.partitions.map((partition) => [partition, createSlot(partition)]));
    assignment.done();
    if (this.slots.size > 0) await this.persist(isCurrent, () => this.source.prepare(assignment.partitions));
    for (const slot of this.slots.values()) {
      await this.persist(isCurrent, async () => {
        if (!slot.open) await this.sink.open(slot.partition);
        slot.open = true;
        if (isCurrent()) await this.source.begin(slot.partition);
      });
    }
    if (this.pending === assignment) this.pending = undefined;
  }

  /** Until it works, or the assignment is over. */
  private async persist(isCurrent: () => boolean, work: () => Promise<void>): Promise<void> {
    for (let tries = 0; isCurrent(); tries++) {
      try {
        return await work();
      } catch {
        this.failures++;
        if (isCurrent()) await this.idle(backOff(tries));
      }
    }
  }

  private giveUp(): void {
    const open = [...this.slots.values()].filter((slot) => slot.open).map(({ partition }) => partition);
    this.slots = new Map();
    this.sinceSettle = 0;
    this.takenTo.clear();
    if (open.length > 0) this.sink.lost(open);
  }

  /** Answers how long to wait before there may be more; 0 where there is. */
  private takeSome(): number {
    const nowMs = performance.now();
    for (let count = 0; count < TURN_MESSAGES; count++) {
      if ((count & 63) === 63 && performance.now() - nowMs > TURN_MS) return 0;
      const next = this.next(nowMs);
      if (typeof next === 'number') return next;
      const delivered = next.shift();
      if (typeof delivered.content === 'string') this.rejected[delivered.content]++;
      this.taken++;
      this.sinceSettle++;
      this.takenTo.set(next.partition, delivered.offset + 1);
      try {
        this.sink.take(delivered);
      } catch {
        // It must not; but one that does must not end the reading of all others.
        this.failures++;
      }
      if (next.hasRoomAgain()) this.source.resume(next.partition);
    }
    return 0;
  }

  /** The slot whose first message is the oldest, or how long to wait for one. */
  private next(nowMs: number): Slot | number {
    let oldest: Slot | undefined;
    let waitMs = Infinity;
    for (const slot of this.slots.values()) {
      const timeMs = slot.timeMs(this.source.decode);
      if (timeMs === undefined) {
        if (slot.isBehind()) waitMs = Math.min(waitMs, slot.emptyMs + this.options.waitMs - nowMs);
      } else if (oldest === undefined || timeMs < oldest.headMs) oldest = slot;
    }
    if (oldest === undefined) return this.options.settleEveryMs;
    return waitMs > 0 && waitMs < Infinity ? waitMs : oldest;
  }

  private settleDue(): boolean {
    if (this.settleFailures > 0 || this.sinceSettle < this.options.settleMessages)
      return performance.now() >= this.settleAtMs;
    return true;
  }

  private isBehind(settled: ReadonlyMap<number, number>): boolean {
    return [...this.takenTo].some(([partition, next]) => (settled.get(partition) ?? 0) < next);
  }

  private async settle(): Promise<void> {
    const { settleEveryMs } = this.options;
    try {
      if (this.sinceSettle > 0) {
        const before = this.sinceSettle;
        const offsets = await this.sink.settle();
        const ours = new Map([...offsets].filter(([partition]) => this.slots.get(partition)?.open === true));
        if (ours.size > 0) await this.source.commit(ours);
        // A sink that saves now and then answers less than it took: it is asked again, messages or none.
        this.sinceSettle = Math.max(this.isBehind(ours) ? 1 : 0, this.sinceSettle - before);
      }
      this.settleFailures = 0;
      this.settleAtMs = performance.now() + settleEveryMs;
    } catch {
      this.failures++;
      this.settleAtMs = performance.now() + Math.max(settleEveryMs, backOff(this.settleFailures++));
    }
  }
}

const backOff = (tries: number): number => Math.min(BACK_OFF_MS_MAX, 100 * 2 ** Math.min(tries, 10));

/** Keeps no process alive. */
const pause = (ms: number): Promise<void> => sleep(ms, undefined, { ref: false });
