/**
 * Where first crossings go: always a line in the agent's log, and the topic of decisions where the config
 * names Kafka. They are hints for people and dashboards; nothing is banned for them, since a source of
 * packets can be forged.
 */
import { kafkaSettings } from '../bus/settings.js';
import type { Config } from '../config/schema.js';
import type { KernelEvent } from '../core/kernel-event.js';
import type { AgentLog } from '../xdp/agent.js';

export type KernelOutlet = Readonly<{
  /** Never throws, never waits. */
  tell(event: KernelEvent): void;
  /** Delivers what waits, for at most `kafka.closing`. */
  close(): Promise<void>;
}>;

/** Throws KAFKA_SETTINGS; a broker that is away is tried again and again. */
export async function createKernelOutlet(config: Config, log: AgentLog): Promise<KernelOutlet> {
  const publisher = await openPublisher(config, log);
  return {
    tell(event) {
      log('warn', 'a source is over a cap', { event });
      publisher?.publish(event);
    },
    async close() {
      await publisher?.close(config.kafka?.closing ?? 0);
    },
  };
}

async function openPublisher({ kafka, baseDir }: Config, log: AgentLog) {
  if (kafka === undefined) return undefined;
  // Loaded where Kafka is used alone: its client is 2 MB.
  const { createKafkaPublisher } = await import('../bus/kafka-publisher.js');
  return createKafkaPublisher(kafkaSettings(kafka, { baseDir }), log);
}
