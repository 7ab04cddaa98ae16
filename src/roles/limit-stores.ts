/**
 * Where a worker counts: in the supervisor, or in Redis where the config names one. A reload that changes
 * `redis`, or a file that it names, opens the new store first and closes the old one once nothing uses it;
 * any other keeps it open.
 */
import { createHash } from 'node:crypto';
import type { LimitStoreHealth } from '../cluster/messages.js';
import type { Config } from '../config/schema.js';
import { steadyClock } from '../core/clock.js';
import type { Fault } from '../core/errors.js';
import { liveNodes } from '../limits/live-nodes.js';
import type { CounterStore } from '../limits/limiter-contract.js';
import type { Share } from '../limits/share.js';
import { hotKeyCache, type HotKeyCacheStats } from '../limits/stores/hot-key-cache.js';
import { guardedStore, type GuardStats } from '../limits/stores/guarded.js';
import { redisStore, type RedisStoreStats } from '../limits/stores/redis.js';
import type { RedisStats } from '../redis/client.js';
import type { RedisConfig } from '../redis/config.js';
import { loadCheckScript } from '../redis/scripts.js';
import { redisSettings } from '../redis/settings.js';
import type { Log } from './engines.js';

/** One store in use, and who shares its limits. */
export type OpenStore = Readonly<{ store: CounterStore; share: () => Share }>;

/** `hot`: absent where `limits.hotKeyCache` is off. */
export type SharedStats = GuardStats &
  RedisStats &
  Pick<RedisStoreStats, 'gives' | 'givesDropped' | 'givesFailed'> &
  Readonly<{ hot: HotKeyCacheStats | undefined }>;

export type LimitStores = Readonly<{
  /** The store for this config; not in use before `keep`. Waits a moment for a first connection. */
  prepare(config: Config): Promise<OpenStore>;
  /** The prepared store is in use from now on; the one before closes. */
  keep(): void;
  /** The prepared store is not needed. */
  abandon(): void;
  stats(): SharedStats | undefined;
  nodes(): number;
}>;

export type LimitStoresDeps = Readonly<{
  embedded: CounterStore;
  log: Log;
  /** The same for all workers of this gate, different for every gate. */
  node: string;
  workers: number;
  /** This worker's place among them, from 0. */
  worker: number;
  onHealth: (health: LimitStoreHealth) => void;
}>;

type Held = OpenStore &
  Readonly<{ text: string; nodes: () => number; stats: LimitStores['stats']; close: () => Promise<void> }>;

const FIRST_CONNECT_MS = 1_000;

export function createLimitStores(deps: LimitStoresDeps): LimitStores {
  let current: Held | undefined;
  let next: Held | undefined;
  const drop = (held: Held | undefined): void => {
    if (held === undefined || held === current) return;
    held.close().catch((error: unknown) => deps.log('warn', String(error)));
  };
  return {
    async prepare(config) {
      const text = textOf(config);
      next = current?.text === text ? current : await open(text, config, deps);
      return next;
    },
    keep() {
      const before = current;
      current = next;
      drop(before);
    },
    abandon: () => drop(next),
    stats: () => current?.stats(),
    nodes: () => current?.nodes() ?? 1,
  };
}

/** Changes with whatever the store is opened from; certificates and keys are files that may be new. */
function textOf({ redis, limits: { nodes, hotKeyCache }, baseDir }: Config): string {
  const files = redis === undefined ? undefined : redisSettings(redis, { baseDir }).options.tls;
  const digest = createHash('sha256').update(JSON.stringify(files ?? null)).digest('hex');
  return JSON.stringify([redis, nodes, hotKeyCache, digest]);
}

async function open(text: string, config: Config, deps: LimitStoresDeps): Promise<Held> {
  const { redis, limits, baseDir } = config;
  const { workers, worker } = deps;
  if (redis !== undefined) {
    const { hashKeyEnv } = config.identity;
    if (worker === 0 && process.env[hashKeyEnv] === undefined)
      deps.log('warn', `${hashKeyEnv} is not set: every gate counts sessions and users for itself`);
    return openRedis(text, { redis, limits, baseDir }, deps);
  }
  deps.onHealth({ store: 'embedded', state: 'ok' });
  return {
    text,
    store: deps.embedded,
    share: () => ({ nodes: 1, rank: 0, workers, worker }),
    nodes: () => 1,
    stats: () => undefined,
    close: async () => undefined,
  };
}

type Shared = Readonly<{ redis: RedisConfig; limits: Config['limits']; baseDir: string }>;

async function openRedis(text: string, shared: Shared, deps: LimitStoresDeps): Promise<Held> {
  const { redis, limits, baseDir } = shared;
  const { nodes } = limits;
  const { workers, worker } = deps;
  const settings = redisSettings(redis, { baseDir });
  // Loaded where Redis is used alone: its client is 5 MB.
  const { connectRedis } = await import('../redis/client.js');
  const client = connectRedis(settings, loadCheckScript());
  const { ramp, probeEvery, ...breaker } = redis.breaker;
  const counters = redisStore(client);
  const guarded = guardedStore(counters, {
    deadlineMs: redis.deadline,
    inFlightMax: redis.inFlightMax,
    breaker: { ...breaker, rampMs: ramp, probeEveryMs: probeEvery },
    onState: reporter(deps, settings.address),
  });
  deps.onHealth({ store: 'redis', state: 'ok' });
  const living = liveNodes({
    node: deps.node,
    ...(nodes === undefined ? {} : { fixed: nodes }),
    evaluate: (source, call) =>
      client.evaluate(source, call).catch((fault: Fault) => {
        // A gate without traffic would else not notice that Redis is gone.
        if (fault.code === 'REDIS_UNREACHABLE') guarded.trip(fault);
        throw fault;
      }),
    ready: client.settled(FIRST_CONNECT_MS),
  });
  await living.first;
  const { enabled, sync, overshoot, ...sizes } = limits.hotKeyCache;
  const cache = !enabled
    ? undefined
    : hotKeyCache(guarded, {
        ...sizes,
        clock: steadyClock,
        peers: () => living.current().count * workers,
        syncMs: sync,
        overshoot: overshoot / 100,
      });
  const store = cache ?? guarded;
  return {
    text,
    store,
    share: () => {
      const { count, rank } = living.current();
      return { nodes: count, rank, workers, worker };
    },
    nodes: () => living.current().count,
    stats: () => ({ ...counters.stats(), ...guarded.stats(), ...client.stats(), hot: cache?.stats() }),
    async close() {
      living.close();
      await store.close();
    },
  };
}

/** Each change is told once, however many requests meet it. */
function reporter({ log, onHealth }: LimitStoresDeps, address: string) {
  let told = false;
  return (state: GuardStats['state'], fault: Fault | undefined): void => {
    if (state === 'open' && !told) {
      told = true;
      const { code, remedy, message } = fault ?? { code: 'STORE_FAILED', remedy: '', message: '' };
      log('warn', `limits: Redis is left alone, limits.onFailure holds: ${message}`, { code, remedy });
      onHealth({ store: 'redis', state: 'degraded', why: code });
    } else if (state === 'closed' && told) {
      told = false;
      log('info', `limits: Redis at ${address} answers again`);
      onHealth({ store: 'redis', state: 'ok' });
    }
  };
}
