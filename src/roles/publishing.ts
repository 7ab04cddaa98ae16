/**
 * Where a worker's decisions go besides the log: to Kafka where the config names it, else in small pieces to
 * the supervisor's correlator, else nowhere.
 */
import { DROP_CAUSES, type PublisherStats } from '../bus/bus-contract.js';
import { kafkaSettings, type KafkaSettings } from '../bus/settings.js';
import { createObservations, OBSERVATIONS_TOPIC } from '../cluster/observations.js';
import type { Config } from '../config/schema.js';
import type { Channel } from '../core/channel.js';
import { zeros } from '../core/counts.js';
import type { Metrics } from '../telemetry/metrics.js';
import type { Publish } from '../telemetry/telemetry.js';
import type { Log } from './engines.js';

export type Publishing = Readonly<{
  publish: Publish | undefined;
  stats(): PublisherStats;
  /** Delivers what waits, for a bounded time; answers how many events were lost at the end. */
  close(): Promise<number>;
}>;

const NOTHING: PublisherStats = {
  queued: 0,
  queuedBytes: 0,
  delivered: 0,
  dropped: zeros(DROP_CAUSES),
  connected: false,
};

const NOWHERE: Publishing = { publish: undefined, stats: () => NOTHING, close: async () => 0 };

type Deps = Readonly<{ channel: Channel; log: Log }>;

/** Never waits for a broker. */
export async function createPublishing(config: Config, { channel, log }: Deps): Promise<Publishing> {
  const { kafka, baseDir } = config;
  if (kafka !== undefined) return toKafka(kafkaSettings(kafka, { baseDir }), log);
  return config.correlator.enabled ? toSupervisor(channel) : NOWHERE;
}

async function toKafka(settings: KafkaSettings, log: Log): Promise<Publishing> {
  // Loaded where Kafka is used alone: its client is 2 MB.
  const { createKafkaPublisher } = await import('../bus/kafka-publisher.js');
  const publisher = createKafkaPublisher(settings, log);
  return {
    publish: { withLine: true, send: (event, line) => publisher.publish(event, line) },
    stats: () => publisher.stats(),
    close: () => publisher.close(settings.config.closing),
  };
}

function toSupervisor(channel: Channel): Publishing {
  let delivered = 0;
  const observations = createObservations((batch) => {
    const sent = channel.send(OBSERVATIONS_TOPIC, batch);
    if (sent) delivered += batch[0];
    return sent;
  });
  return {
    publish: { withLine: false, send: (event) => observations.push(event) },
    stats: () => ({
      ...NOTHING,
      delivered,
      dropped: { ...NOTHING.dropped, full: observations.dropped() },
      connected: true,
    }),
    async close() {
      observations.flush();
      return 0;
    },
  };
}

export function publishingGauges(metrics: Metrics, publishing: Publishing): void {
  const gauges: readonly [name: string, help: string, read: (stats: PublisherStats) => number][] = [
    ['bus_queued', 'Decision events that wait for the bus.', ({ queued }) => queued],
    ['bus_queued_bytes', 'Their size.', ({ queuedBytes }) => queuedBytes],
    ['bus_connected', 'Workers that the bus takes events from.', ({ connected }) => Number(connected)],
  ];
  for (const [name, help, read] of gauges) metrics.gauge(name, help, () => read(publishing.stats()));
  const delivered = (): number => publishing.stats().delivered;
  metrics.counter('bus_delivered', 'Decision events that the bus took.', delivered);
  metrics.counters('bus_dropped', {
    help: 'Decision events lost before the bus had them, by cause.',
    label: 'cause',
    read: () => Object.entries(publishing.stats().dropped),
  });
}
