/** Batches of events to Kafka: idempotent, acknowledged by all copies, spread by key as Java's clients do. */
import { CompressionTypes, Partitioners } from 'kafkajs';
import { ensureTopic, openKafka, protocolError, within } from './kafka-client.js';
import { RecordsRefused, type Link } from './link.js';
import type { KafkaSettings } from './settings.js';

/** Whatever the connection, the broker will not take them: they are split until the offender is alone. */
const TOO_LARGE = new Set(['MESSAGE_TOO_LARGE', 'RECORD_LIST_TOO_LARGE']);
const UNFIT = new Set(['INVALID_RECORD', 'INVALID_TIMESTAMP', 'CORRUPT_MESSAGE', 'INVALID_REQUIRED_ACKS']);

/** Rejects where there is no broker, no topic, no right to write. */
export async function openKafkaLink(settings: KafkaSettings): Promise<Link> {
  const { config } = settings;
  const { topic, requestTimeout, connectTimeout } = config;
  const client = openKafka(settings);
  const producer = client.kafka.producer({
    idempotent: true,
    allowAutoTopicCreation: false,
    createPartitioner: Partitioners.DefaultPartitioner,
    retry: { retries: 2 },
  });
  const connecting = (async () => {
    await ensureTopic(client.kafka, settings);
    await producer.connect();
  })();
  try {
    await within(2 * (requestTimeout + connectTimeout), 'connecting', connecting);
  } catch (error) {
    client.destroy();
    throw error;
  }
  const compression = config.compression === 'gzip' ? CompressionTypes.GZIP : CompressionTypes.None;
  return {
    async send(batch) {
      const messages = batch.map(({ key, id, value }) => ({ key, value, headers: { id } }));
      const sent = producer.send({ topic, messages, acks: -1, timeout: requestTimeout, compression });
      try {
        await within(2 * requestTimeout + connectTimeout, 'sending', sent);
      } catch (error) {
        const code = protocolError(error) ?? '';
        if (TOO_LARGE.has(code) || UNFIT.has(code)) throw new RecordsRefused(TOO_LARGE.has(code), error);
        throw error;
      }
    },
    close() {
      // The orderly way waits for answers that may never come.
      producer.disconnect().catch(() => undefined);
      client.destroy();
    },
  };
}
