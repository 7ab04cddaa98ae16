/** Where a consumer group stands on a topic, and where each partition ends. */
import type { Kafka } from 'kafkajs';
import type { Place } from './slot.js';

type Names = Readonly<{ topic: string; group: string }>;

/**
 * `next`: what the group committed, within what is there (retention, a topic made anew); the first message
 * where it never did.
 */
export async function committedPlaces(
  kafka: Kafka,
  { topic, group }: Names,
  partitions: readonly number[],
): Promise<Map<number, Place>> {
  const admin = kafka.admin();
  try {
    await admin.connect();
    const ends = await admin.fetchTopicOffsets(topic);
    const [committed] = await admin.fetchOffsets({ groupId: group, topics: [topic] });
    const places = new Map<number, Place>();
    for (const { partition, low, high } of ends) {
      if (!partitions.includes(partition)) continue;
      const found = committed?.partitions.find((each) => each.partition === partition);
      const offset = Number(found?.offset ?? -1);
      const isThere = offset >= Number(low) && offset <= Number(high);
      places.set(partition, { next: isThere ? offset : Number(low), end: Number(high) });
    }
    return places;
  } finally {
    await admin.disconnect().catch(() => undefined);
  }
}
