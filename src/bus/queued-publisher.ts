/**
 * A publisher in front of a broker that may be slow, silent or away: a bounded queue, one batch at a time, a
 * new link with growing pauses after every failure. Nothing here runs on the path of a request: `publish`
 * adds to a queue, all else happens between.
 */
import { zeros } from '../core/counts.js';
import type { DecisionEvent } from '../core/event.js';
import { Fault } from '../core/errors.js';
import type { KernelEvent } from '../core/kernel-event.js';
import { DROP_CAUSES, type DropCause, type Publisher, type PublisherStats } from './bus-contract.js';
import type { KafkaConfig } from './config.js';
import { essentialsOf } from './essentials.js';
import { whyOf } from './kafka-client.js';
import { keyOf } from './key.js';
import { createLanes, importanceOf, type Item, type Lanes } from './lanes.js';
import { RecordsRefused, type Link, type Message } from './link.js';

export type QueuedPublisherDeps = Readonly<{
  /** Opens a link; rejects where there is none to be had. */
  connect: () => Promise<Link>;
  /** After the last link. */
  end?: () => void;
  /** Where the broker is, for messages. */
  address: string;
  log: (
    level: 'info' | 'warn',
    message: string,
    fields?: Readonly<Record<string, unknown>>,
  ) => void;
  random?: () => number;
}>;

type Bounds = Pick<KafkaConfig, 'queueEvents' | 'queueBytes' | 'eventMax' | 'batchEvents' | 'linger'>;
type Waiting = Item & Message;

/** Far below what a broker takes in one request (1 MB). */
const BATCH_BYTES = 512 * 1024;
/** Key, headers, bookkeeping. */
const OVERHEAD_BYTES = 200;
const BACK_OFF_MS_MIN = 100;
const BACK_OFF_MS_MAX = 3_000;
const REPORT_MS = 60_000;

/** Begins to connect at once, and never gives up. */
export function queuedPublisher(bounds: Bounds, deps: QueuedPublisherDeps): Publisher {
  const queue = new Queue(bounds, deps);
  return {
    publish: (event, line) => queue.add(event, line),
    stats: () => queue.stats(),
    close: (ms) => queue.close(ms),
  };
}

class Queue {
  private readonly lanes: Lanes<Waiting>;
  /** Taken out of the queue and not acknowledged yet, in order. */
  private batches: Waiting[][] = [];
  private seq = 0;
  private delivered = 0;
  private readonly dropped: Record<DropCause, number> = zeros(DROP_CAUSES);
  private link: Link | undefined;
  private state: 'open' | 'closing' | 'closed' = 'open';
  private wakeUp: (() => void) | undefined;
  private failures = 0;
  private reportedMs = -Infinity;
  private reportedDrops = 0;
  private lingerUntilMs = 0;

  constructor(
    private readonly bounds: Bounds,
    private readonly deps: QueuedPublisherDeps,
  ) {
    this.lanes = createLanes({ count: bounds.queueEvents, bytes: bounds.queueBytes });
    void this.run();
  }

  add(event: DecisionEvent | KernelEvent, line: string | undefined): void {
    if (this.state !== 'open') {
      this.dropped.closed++;
      return;
    }
    const value = this.valueOf(event, line);
    if (value === undefined) {
      this.dropped['too-large']++;
      return;
    }
    const message: Waiting = {
      seq: this.seq++,
      bytes: value.length + OVERHEAD_BYTES,
      key: 'kind' in event ? event.source : keyOf(event.client),
      id: 'kind' in event ? `${event.node} ${event.time} ${event.source} ${event.what}` : event.requestId,
      value,
    };
    this.dropped.full += this.lanes.add(message, 'kind' in event ? 1 : importanceOf(event));
    const count = this.lanes.count();
    if (count === 1) this.lingerUntilMs = performance.now() + this.bounds.linger;
    if (count === 1 || count === this.bounds.batchEvents) this.wake();
  }

  stats(): PublisherStats {
    const inHand = this.batches.flat();
    return {
      queued: this.lanes.count() + inHand.length,
      queuedBytes: this.lanes.bytes() + inHand.reduce((sum, { bytes }) => sum + bytes, 0),
      delivered: this.delivered,
      dropped: { ...this.dropped },
      connected: this.link !== undefined,
    };
  }

  async close(ms: number): Promise<number> {
    if (this.state !== 'open') return 0;
    this.state = 'closing';
    const untilMs = performance.now() + ms;
    this.wake();
    while (this.waits() > 0 && performance.now() < untilMs) {
      await new Promise((resolve) => setTimeout(resolve, 5));
    }
    this.state = 'closed';
    const lost = this.waits();
    this.dropped.unavailable += lost;
    this.lanes.release(Infinity);
    this.batches = [];
    this.unlink();
    this.deps.end?.();
    this.wake();
    return lost;
  }

  private waits(): number {
    return this.lanes.count() + this.batches.reduce((sum, batch) => sum + batch.length, 0);
  }

  private valueOf(event: DecisionEvent | KernelEvent, line: string | undefined): Buffer | undefined {
    const value = Buffer.from(line ?? JSON.stringify(event));
    if (value.length <= this.bounds.eventMax) return value;
    if ('kind' in event) return undefined;
    const short = Buffer.from(JSON.stringify(essentialsOf(event)));
    return short.length <= this.bounds.eventMax ? short : undefined;
  }

  private async run(): Promise<void> {
    while (this.state !== 'closed') {
      try {
        this.link ??= await this.connect();
        if (this.state === ('closed' as string)) break;
        const batch = await this.nextBatch();
        if (batch === undefined) continue;
        await this.link.send(batch);
        this.batches.shift();
        this.delivered += batch.length;
        this.recovered();
      } catch (error) {
        // A producer that failed once may count in another order than the broker: always a new one.
        this.unlink();
        if (this.state === ('closed' as string)) break;
        if (error instanceof RecordsRefused) this.divide(error);
        else await this.backOff(error);
      }
    }
    this.unlink();
  }

  private async connect(): Promise<Link> {
    const link = await this.deps.connect();
    if (this.state !== 'closed' && this.waits() === 0) this.recovered();
    return link;
  }

  private unlink(): void {
    this.link?.close();
    this.link = undefined;
  }

  /** What is sent next; undefined after a wait, when it may look different. */
  private async nextBatch(): Promise<Waiting[] | undefined> {
    if (this.batches[0] !== undefined) return this.batches[0];
    const { batchEvents } = this.bounds;
    const count = this.lanes.count();
    const waitMs = this.lingerUntilMs - performance.now();
    if (count === 0) await this.sleep(REPORT_MS);
    else if (count < batchEvents && waitMs > 0 && this.state === 'open') await this.sleep(waitMs);
    else {
      let bytes = 0;
      const batch = this.lanes.take(batchEvents, (item) => {
        const isFirst = bytes === 0;
        bytes += item.bytes;
        return isFirst || bytes <= BATCH_BYTES;
      });
      if (batch.length > 0) this.batches.push(batch);
      return batch.length > 0 ? batch : undefined;
    }
    return undefined;
  }

  /** Halves what the broker does not take, until the offender is alone: that one is cut short, or dropped. */
  private divide(refused: RecordsRefused): void {
    const batch = this.batches.shift();
    if (batch === undefined) return;
    if (batch.length > 1) {
      const middle = batch.length >> 1;
      this.batches.unshift(batch.slice(0, middle), batch.slice(middle));
      return;
    }
    const short = refused.tooLarge ? shortened(batch[0]!) : undefined;
    if (short !== undefined) this.batches.unshift([short]);
    else this.dropped[refused.tooLarge ? 'too-large' : 'unavailable']++;
  }

  private async backOff(error: unknown): Promise<void> {
    this.report(error);
    const fullMs = Math.min(BACK_OFF_MS_MAX, BACK_OFF_MS_MIN * 2 ** Math.min(this.failures++, 10));
    const { random = Math.random } = this.deps;
    // Only the end of the whole publisher cuts it short: a full queue must not ask for more tries.
    const untilMs = performance.now() + fullMs * (0.5 + random() / 2);
    const leftMs = (): number => untilMs - performance.now();
    while (this.state === 'open' && leftMs() > 0) await this.sleep(leftMs());
    if (this.state === 'closing') await this.sleep(BACK_OFF_MS_MIN);
  }

  private report(error: unknown): void {
    const nowMs = performance.now();
    if (nowMs - this.reportedMs < REPORT_MS) return;
    this.reportedMs = nowMs;
    const fault = new Fault('KAFKA_UNREACHABLE', { address: this.deps.address, why: whyOf(error) });
    const { code, remedy } = fault;
    this.deps.log('warn', fault.message, { code, remedy, queued: this.waits(), dropped: this.newDrops() });
  }

  private recovered(): void {
    if (this.failures === 0) return;
    this.failures = 0;
    this.reportedMs = -Infinity;
    const message = `Kafka at ${this.deps.address} takes events again`;
    this.deps.log('info', message, { dropped: this.newDrops() });
  }

  /** Since the last report. */
  private newDrops(): number {
    const all = this.dropped.full + this.dropped['too-large'] + this.dropped.unavailable;
    const drops = all - this.reportedDrops;
    this.reportedDrops = all;
    return drops;
  }

  private wake(): void {
    const wakeUp = this.wakeUp;
    this.wakeUp = undefined;
    wakeUp?.();
  }

  private sleep(ms: number): Promise<void> {
    return new Promise((resolve) => {
      const timer = setTimeout(() => this.wake(), Math.max(1, ms));
      if (this.state === 'open') timer.unref();
      this.wakeUp = () => {
        clearTimeout(timer);
        resolve();
      };
    });
  }
}

/** Undefined where nothing can be taken away any more. */
function shortened(message: Waiting): Waiting | undefined {
  try {
    const event = JSON.parse(message.value.toString()) as DecisionEvent | KernelEvent;
    if ('kind' in event) return undefined;
    const value = Buffer.from(JSON.stringify(essentialsOf(event)));
    if (value.length >= message.value.length) return undefined;
    return { ...message, value, bytes: value.length + OVERHEAD_BYTES };
  } catch {
    return undefined;
  }
}
