/** Decision events to Kafka: the queue in front, a link of kafkajs behind. */
import type { Publisher } from './bus-contract.js';
import { openKafkaLink } from './kafka-link.js';
import { queuedPublisher, type QueuedPublisherDeps } from './queued-publisher.js';
import type { KafkaSettings } from './settings.js';

/** Never waits for a broker: one that is away is tried again and again. */
export function createKafkaPublisher(settings: KafkaSettings, log: QueuedPublisherDeps['log']): Publisher {
  return queuedPublisher(settings.config, {
    connect: () => openKafkaLink(settings),
    address: settings.address,
    log,
  });
}
