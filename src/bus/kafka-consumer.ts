/**
 * Reads the topic as a member of a consumer group. kafkajs joins, fetches and keeps the membership; which
 * offset comes next is kept here, since batches of a generation that is over do arrive after a rebalance.
 * Whatever fails ends the session, and a new one begins after a pause, for ever.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import type { Consumer as KafkaJsConsumer, EachBatchPayload } from 'kafkajs';
import { zeros } from '../core/counts.js';
import { Fault } from '../core/errors.js';
import { REJECTS, type Consumer, type ConsumerStats, type Sink } from './bus-contract.js';
import { decodeMessage } from './decode.js';
import { ensureTopic, openKafka, whyOf, within, type KafkaClient } from './kafka-client.js';
import { committedPlaces } from './kafka-places.js';
import type { KafkaSettings } from './settings.js';
import type { Place } from './slot.js';
import { LOOP_DEFAULTS, TakeLoop, type LoopOptions, type LoopSource } from './take-loop.js';

export type KafkaConsumerDeps = Readonly<{
  log: (
    level: 'info' | 'warn',
    message: string,
    fields?: Readonly<Record<string, unknown>>,
  ) => void;
  /** Wall clock, milliseconds since the epoch. */
  nowMs?: () => number;
  loop?: Partial<LoopOptions>;
}>;

/** The least that brokers take by default: so long the partitions of one that died wait for another. */
const SESSION_MS = 6_000;
const HEARTBEAT_MS = 1_000;
const REBALANCE_MS = 15_000;
const FETCH_WAIT_MS = 250;
const PARTITION_BYTES = 1024 ** 2;
/** kafkajs that says nothing for so long has lost itself. */
const SILENT_MS = 45_000;
const BACK_OFF_MS_MIN = 200;
const BACK_OFF_MS_MAX = 5_000;
const REPORT_MS = 60_000;

export function createKafkaConsumer(settings: KafkaSettings, deps: KafkaConsumerDeps): Consumer {
  let reader: Reader | undefined;
  return {
    async start(sink) {
      reader ??= new Reader(settings, deps, sink);
    },
    stats: () => reader?.stats() ?? NOT_STARTED,
    close: async (ms) => reader?.close(ms),
  };
}

const NOT_STARTED: ConsumerStats = {
  connected: false,
  partitions: [],
  lag: undefined,
  taken: 0,
  rejected: zeros(REJECTS),
  rebalances: 0,
  failures: 0,
};

/** One membership in the group, from joining to its end. */
type Session = {
  readonly client: KafkaClient;
  readonly consumer: KafkaJsConsumer;
  /** Where the group stood when the partitions were assigned. */
  found: ReadonlyMap<number, Place>;
  /** Where each partition is read on; absent before it is open. */
  readonly places: Map<number, Place>;
  /** Fetched from elsewhere than asked for, the last time. */
  readonly astray: Map<number, number>;
  aliveMs: number;
  joined: boolean;
  readonly end: (why: unknown) => void;
  readonly ended: Promise<unknown>;
};

class Reader {
  private readonly loop: TakeLoop;
  private session: Session | undefined;
  private state: 'open' | 'closed' = 'open';
  private rebalances = 0;
  private failures = 0;
  private tries = 0;
  private reportedMs = -Infinity;

  constructor(
    private readonly settings: KafkaSettings,
    private readonly deps: KafkaConsumerDeps,
    sink: Sink,
  ) {
    const { nowMs = Date.now } = deps;
    const source: LoopSource = {
      prepare: (partitions) => this.prepare(partitions),
      commit: (offsets) => this.commit(offsets),
      begin: (partition) => this.begin(partition),
      resume: (partition) => this.resume(partition),
      decode: (value, takenMs = Infinity) =>
        decodeMessage(value as Buffer | null, Math.min(nowMs(), takenMs)),
    };
    this.loop = new TakeLoop(sink, source, { ...LOOP_DEFAULTS, ...deps.loop });
    void this.run();
  }

  stats(): ConsumerStats {
    const { loop, session } = this;
    return {
      connected: session?.joined ?? false,
      partitions: loop.partitions(),
      lag: session?.joined === true ? loop.lag() : undefined,
      taken: loop.taken,
      rejected: { ...loop.rejected },
      rebalances: this.rebalances,
      failures: this.failures + loop.failures,
    };
  }

  async close(ms: number): Promise<void> {
    if (this.state === 'closed') return;
    this.state = 'closed';
    const untilMs = performance.now() + ms;
    await this.loop.close(ms);
    const { session } = this;
    if (session === undefined) return;
    await leave(session, Math.max(50, untilMs - performance.now()));
    session.end(undefined);
  }

  private async run(): Promise<void> {
    while (this.state === 'open') {
      const why = await this.live().catch((error: unknown) => error);
      if (this.state === ('closed' as string)) return;
      this.failures++;
      this.report(why);
      await this.loop.assign([]);
      const fullMs = Math.min(BACK_OFF_MS_MAX, BACK_OFF_MS_MIN * 2 ** Math.min(this.tries++, 10));
      await sleep(fullMs * (0.5 + Math.random() / 2), undefined, { ref: false });
    }
  }

  /** One session to its end; answers or rejects with why it ended. */
  private async live(): Promise<unknown> {
    const { config } = this.settings;
    const session = openSession(this.settings);
    this.session = session;
    const watch = setInterval(() => {
      if (performance.now() - session.aliveMs > SILENT_MS) session.end(new Error('nothing was heard'));
    }, 1_000);
    try {
      const limitMs = 3 * (config.requestTimeout + config.connectTimeout) + REBALANCE_MS;
      await within(limitMs, 'joining the group', this.join(session));
      return await session.ended;
    } finally {
      clearInterval(watch);
      session.joined = false;
      this.session = undefined;
      session.consumer.disconnect().catch(() => undefined);
      session.client.destroy();
    }
  }

  private async join(session: Session): Promise<void> {
    const { consumer, client } = session;
    const { topic } = this.settings.config;
    await ensureTopic(client.kafka, this.settings);
    this.listen(session);
    await consumer.connect();
    await consumer.subscribe({ topics: [topic], fromBeginning: true });
    await consumer.run({
      autoCommit: false,
      eachBatchAutoResolve: false,
      partitionsConsumedConcurrently: 1,
      eachBatch: async (payload) => this.takeBatch(session, payload),
    });
  }

  private listen(session: Session): void {
    const { consumer } = session;
    const { topic } = this.settings.config;
    const events = consumer.events;
    const isOver = (): boolean => this.session !== session || this.state !== 'open';
    const alive = (): void => void (session.aliveMs = performance.now());
    consumer.on(events.HEARTBEAT, alive);
    consumer.on(events.FETCH, alive);
    consumer.on(events.REBALANCING, () => {
      if (isOver()) return;
      session.places.clear();
      void this.loop.assign([]);
    });
    consumer.on(events.GROUP_JOIN, ({ payload }) => {
      alive();
      if (isOver()) return;
      const partitions = (payload.memberAssignment[topic] ?? []).map(Number);
      session.places.clear();
      session.astray.clear();
      if (partitions.length > 0) consumer.pause([{ topic, partitions }]);
      this.rebalances++;
      this.joined(session);
      void this.loop.assign(partitions);
    });
    consumer.on(events.CRASH, ({ payload }) => session.end(payload.error));
  }

  private joined(session: Session): void {
    session.joined = true;
    if (this.tries > 0) this.deps.log('info', `Kafka at ${this.settings.address} is read again`);
    this.tries = 0;
    this.reportedMs = -Infinity;
  }

  /** Where the group stands in each of them. */
  private async prepare(partitions: readonly number[]): Promise<void> {
    const { session } = this;
    if (session === undefined) throw new Error('there is no session');
    const { config } = this.settings;
    const finding = committedPlaces(session.client.kafka, config, partitions);
    const found = await within(2 * config.requestTimeout, 'looking up offsets', finding);
    session.found = found;
  }

  /** From there on, this partition is fetched. */
  private async begin(partition: number): Promise<void> {
    const { session } = this;
    const place = session?.found.get(partition);
    if (session === undefined || place === undefined) throw new Error(`partition ${partition} is not known`);
    const { topic } = this.settings.config;
    session.places.set(partition, place);
    session.consumer.seek({ topic, partition, offset: String(place.next) });
    session.consumer.resume([{ topic, partitions: [partition] }]);
    this.loop.push(partition, [], place);
  }

  private takeBatch(session: Session, { batch, resolveOffset }: EachBatchPayload): void {
    const { topic } = this.settings.config;
    const { partition } = batch;
    session.aliveMs = performance.now();
    const place = session.places.get(partition);
    if (place === undefined || this.session !== session) return;
    const fetchedFrom = Number((batch as unknown as { fetchedOffset: string | number }).fetchedOffset);
    if (fetchedFrom !== place.next && !this.accepts(session, partition, fetchedFrom)) return;
    const last = Number(batch.lastOffset());
    const messages = batch.messages.map(({ offset, value, timestamp }) => ({
      ...{ offset: Number(offset), value },
      takenMs: Number(timestamp) > 0 ? Number(timestamp) : undefined,
    }));
    const next = { next: last + 1, end: Math.max(last + 1, Number(batch.highWatermark)) };
    if (!this.loop.push(partition, messages, next)) return;
    session.places.set(partition, next);
    resolveOffset(batch.lastOffset());
    if (this.loop.isFull(partition)) session.consumer.pause([{ topic, partitions: [partition] }]);
  }

  /**
   * A batch from elsewhere than asked for is of a generation that is over, or kafkajs was sent elsewhere
   * since what was there is gone. Asked again, only the second comes again.
   */
  private accepts({ consumer, places, astray }: Session, partition: number, fetchedFrom: number): boolean {
    const { topic } = this.settings.config;
    const { next } = places.get(partition)!;
    const again = astray.get(partition) === fetchedFrom;
    astray.set(partition, fetchedFrom);
    if (again) return true;
    consumer.seek({ topic, partition, offset: String(next) });
    return false;
  }

  private resume(partition: number): void {
    const { topic } = this.settings.config;
    if (this.session?.places.has(partition) !== true) return;
    try {
      this.session.consumer.resume([{ topic, partitions: [partition] }]);
    } catch {
      // The membership has just ended; the next one begins with room.
    }
  }

  private async commit(offsets: ReadonlyMap<number, number>): Promise<void> {
    const { session } = this;
    if (session === undefined) throw new Error('there is no session');
    const { topic, requestTimeout } = this.settings.config;
    const list = [...offsets].map(([partition, offset]) => ({ topic, partition, offset: String(offset) }));
    await within(requestTimeout, 'committing', session.consumer.commitOffsets(list));
  }

  private report(error: unknown): void {
    const nowMs = performance.now();
    if (nowMs - this.reportedMs < REPORT_MS) return;
    this.reportedMs = nowMs;
    const fault = new Fault('KAFKA_UNREAD', { address: this.settings.address, why: whyOf(error) });
    this.deps.log('warn', fault.message, { code: fault.code, remedy: fault.remedy });
  }
}

function openSession(settings: KafkaSettings): Session {
  const client = openKafka(settings);
  let end: Session['end'] = () => undefined;
  const ended = new Promise<unknown>((resolve) => (end = resolve));
  const consumer = client.kafka.consumer({
    groupId: settings.config.group,
    sessionTimeout: SESSION_MS,
    rebalanceTimeout: REBALANCE_MS,
    heartbeatInterval: HEARTBEAT_MS,
    maxWaitTimeInMs: FETCH_WAIT_MS,
    maxBytesPerPartition: PARTITION_BYTES,
    allowAutoTopicCreation: false,
    readUncommitted: true,
    // kafkajs would begin again by itself, from a timer that nobody catches.
    retry: { restartOnFailure: async () => false },
  });
  return {
    client,
    consumer,
    found: new Map(),
    places: new Map(),
    astray: new Map(),
    aliveMs: performance.now(),
    joined: false,
    end,
    ended,
  };
}

async function leave({ consumer }: Session, ms: number): Promise<void> {
  await within(ms, 'leaving the group', consumer.disconnect()).catch(() => undefined);
}
