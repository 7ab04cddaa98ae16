/**
 * `tidegate correlate`: reads decisions from Kafka as one of a group, keeps each partition's state in Redis
 * beside the book of bans. Whoever holds the lease evaluates for all. What is away is waited for.
 */
import { randomBytes } from 'node:crypto';
import { hostname } from 'node:os';
import type { Consumer } from '../bus/bus-contract.js';
import { createKafkaConsumer } from '../bus/kafka-consumer.js';
import { kafkaSettings } from '../bus/settings.js';
import { loadConfig } from '../config/load.js';
import type { Config } from '../config/schema.js';
import { loadBanScript } from '../controls/ban-script.js';
import { createRedisBook } from '../controls/redis-book.js';
import { systemClock } from '../core/clock.js';
import { Fault } from '../core/errors.js';
import { createLease, type Lease } from '../correlator/lease.js';
import { createStateStore } from '../correlator/state-store.js';
import { connectRedis, type RedisClient } from '../redis/client.js';
import { redisSettings } from '../redis/settings.js';
import { createEventLog, type EventLog } from '../telemetry/log.js';
import { createMetrics, sumOf } from '../telemetry/metrics.js';
import { buildCorrelator, type BuiltCorrelator } from './correlator.js';
import { correlatorGauges } from './correlator-gauges.js';
import { createListener, type Listener } from './correlator-listener.js';
import type { CorrelatorView } from './correlator.js';

export type CorrelatorProcess = Readonly<{
  /** Answers where it listens, if anywhere. Throws a Fault where it cannot start; then nothing stays open. */
  start(): Promise<Readonly<{ listen: string | undefined }>>;
  /** Settles, commits and leaves the group, within seconds. */
  stop(): Promise<void>;
}>;

type Parts = Readonly<{
  log: EventLog;
  redis: RedisClient;
  lease: Lease;
  built: BuiltCorrelator;
  consumer: Consumer;
  listener: Listener | undefined;
}>;

const CONNECT_MS = 2_000;
const CLOSE_MS = 8_000;

/** `file`: the gate's config, with `kafka` and `redis`. */
export function createCorrelatorProcess(file: string): CorrelatorProcess {
  let parts: Parts | undefined;
  return {
    async start() {
      const config = await loadConfig(file);
      parts = open(config);
      const { redis, built, lease, consumer, listener } = parts;
      const listen = await listener?.listen();
      await redis.settled(CONNECT_MS);
      lease.start();
      await built.start();
      await consumer.start(built.engine);
      return { listen };
    },
    async stop() {
      if (parts === undefined) return;
      const { redis, built, lease, consumer, listener, log } = parts;
      await consumer.close(CLOSE_MS);
      await lease.close();
      await built.close();
      await redis.close();
      await listener?.close();
      await log.close();
    },
  };
}

function open(config: Config): Parts {
  const { kafka, redis: redisConfig, baseDir, bans, correlator } = config;
  if (kafka === undefined || redisConfig === undefined) {
    const missing = [kafka === undefined ? '`kafka`' : '', redisConfig === undefined ? '`redis`' : ''];
    throw new Fault('CORRELATE_NEEDS', { what: missing.filter((name) => name !== '').join(' and ') });
  }
  const settings = kafkaSettings(kafka, { baseDir });
  // Beside the gate's own log file, a second writer would be one too many.
  const log = createEventLog(config.log, { file: undefined, nowMs: systemClock.nowMs });
  const redis = connectRedis(redisSettings(redisConfig, { baseDir }), loadBanScript());
  const group = `${kafka.topic}/${kafka.group}`;
  const { evaluate } = redis;
  const holder = `${hostname()}-${randomBytes(6).toString('hex')}`;
  const lease = createLease({ evaluate, group, holder });
  const onTrouble = (text: string): void => log.note('warn', `correlator: ${text}`);
  const built = buildCorrelator(config, {
    book: createRedisBook({ client: redis, keyPrefix: redisConfig.keyPrefix, rules: () => bans }),
    log: log.note,
    states: createStateStore({ evaluate, group, onTrouble }),
    isLeading: lease.isHeld,
  });
  const consumer = createKafkaConsumer(settings, { log: log.note });
  const running = { redis, built, consumer };
  const listener =
    correlator.listen === undefined
      ? undefined
      : createListener(correlator.listen, config.admin.hosts, answersOf(config, running));
  return { log, redis, lease, built, consumer, listener };
}

function answersOf(config: Config, { redis, built, consumer }: Pick<Parts, 'redis' | 'built' | 'consumer'>) {
  const metrics = createMetrics(config.metrics, { sites: [] });
  const view = (): CorrelatorView => ({
    engine: built.engine.stats(),
    consumer: consumer.stats(),
    busDropped: 0,
  });
  correlatorGauges(metrics, view);
  metrics.gauge('correlator_redis_connected', '1 while Redis answers.', () =>
    Number(redis.stats().connected),
  );
  return {
    metrics: async () => sumOf([await metrics.snapshot()]),
    health() {
      const { connected, partitions, lag } = consumer.stats();
      const { leading, newestMs } = built.engine.stats();
      const states = { kafka: connected, redis: redis.stats().connected };
      return { ok: states.kafka && states.redis, ...states, leading, partitions, lag, newestMs };
    },
  };
}
