/**
 * Reads a topic from its beginning to where it ended when this began, as a group of its own that commits
 * nothing. Partitions come side by side, by event time.
 */
import { randomBytes } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Delivered, Sink } from '../bus/bus-contract.js';
import { openKafka, whyOf, within } from '../bus/kafka-client.js';
import { createKafkaConsumer } from '../bus/kafka-consumer.js';
import { kafkaSettings, type KafkaSettings } from '../bus/settings.js';
import { Fault } from '../core/errors.js';
import { replayFrom, type Reader, type Replayed, type ReplayAsk } from './replay.js';

/** Nothing came for so long: the brokers are away. */
const SILENT_MS = 30_000;
const LOOK_MS = 50;
const CLOSE_MS = 2_000;

/** Throws Faults REPLAY_TOPIC, KAFKA_SETTINGS, KAFKA_UNREAD. */
export async function replayTopic(ask: ReplayAsk): Promise<Replayed> {
  const { kafka, baseDir } = ask.config;
  if (kafka === undefined) throw new Fault('REPLAY_TOPIC');
  const group = `${kafka.group}-replay-${randomBytes(6).toString('hex')}`;
  const settings = kafkaSettings({ ...kafka, group, createTopic: false }, { baseDir });
  return replayFrom({ ...ask, source: `topic ${kafka.topic}` }, (reader) => readAll(settings, reader, ask));
}

async function readAll(settings: KafkaSettings, reader: Reader, { log }: ReplayAsk): Promise<void> {
  const ends = await endsOf(settings);
  const reached = new Map<number, number>();
  const isOver = (): boolean => [...ends].every(([partition, end]) => (reached.get(partition) ?? 0) >= end);
  let waiting: Delivered[] = [];
  let isReading = false;
  let problem: unknown;
  const read = async (batch: readonly Delivered[]): Promise<void> => {
    for (const { partition, offset, content } of batch) {
      if (offset < (ends.get(partition) ?? 0)) await reader.message(content, { partition, offset });
      reached.set(partition, offset + 1);
    }
  };
  const sink: Sink = {
    open: async () => undefined,
    // Kept here and read in `settle`, during which nothing more is taken.
    take: (delivered) => void waiting.push(delivered),
    async settle() {
      const batch = waiting;
      waiting = [];
      isReading = true;
      await read(batch).catch((error: unknown) => (problem ??= error));
      isReading = false;
      return new Map();
    },
    lost: () => undefined,
  };
  const consumer = createKafkaConsumer(settings, { log, loop: { settleEveryMs: 200 } });
  try {
    if (isOver()) return;
    await consumer.start(sink);
    for (
      let heardMs = performance.now(), taken = 0;
      !isOver() && problem === undefined;
      await sleep(LOOK_MS)
    ) {
      const now = consumer.stats();
      if (now.taken !== taken) [heardMs, taken] = [performance.now(), now.taken];
      // Offsets have gaps: the last ones may never come.
      if (
        now.lag === 0 &&
        now.partitions.length >= ends.size &&
        waiting.length === 0 &&
        !isReading &&
        taken > 0
      )
        return;
      if (performance.now() - heardMs > SILENT_MS) throw unread(settings, new Error('nothing came for 30 s'));
    }
    if (problem !== undefined) throw problem;
  } finally {
    await consumer.close(CLOSE_MS);
  }
}

/** Offset behind the last message of each partition that holds any. */
async function endsOf(settings: KafkaSettings): Promise<Map<number, number>> {
  const client = openKafka(settings);
  const admin = client.kafka.admin();
  const { topic, requestTimeout, connectTimeout } = settings.config;
  try {
    const asked = admin.connect().then(() => admin.fetchTopicOffsets(topic));
    const found = await within(3 * (requestTimeout + connectTimeout), 'asking for offsets', asked);
    const some = found.filter(({ low, high }) => Number(high) > Number(low));
    return new Map(some.map(({ partition, high }) => [partition, Number(high)]));
  } catch (error) {
    throw unread(settings, error);
  } finally {
    await admin.disconnect().catch(() => undefined);
    client.destroy();
  }
}

function unread({ address }: KafkaSettings, error: unknown): Fault {
  return new Fault('KAFKA_UNREAD', { address, why: whyOf(error) }, error);
}
