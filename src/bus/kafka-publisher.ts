/** Decision events to Kafka: the queue in front, kafkajs in a thread of its own behind. */
import type { Publisher } from './bus-contract.js';
import { queuedPublisher, type QueuedPublisherDeps } from './queued-publisher.js';
import { openKafkaLink } from './kafka-link.js';
import type { KafkaSettings } from './settings.js';
import { threadLinks, type Links } from './thread-link.js';

/** A thread runs JavaScript only: in a source tree kafkajs shares the one there is. */
const IS_BUILT = import.meta.url.endsWith('.js');
const ownLinks = (settings: KafkaSettings): Links => ({
  connect: () => openKafkaLink(settings),
  end: () => undefined,
});

/** Never waits for a broker: one that is away is tried again and again. */
export function createKafkaPublisher(settings: KafkaSettings, log: QueuedPublisherDeps['log']): Publisher {
  const { connect, end } = IS_BUILT ? threadLinks(settings) : ownLinks(settings);
  return queuedPublisher(settings.config, { connect, end, address: settings.address, log });
}
