/**
 * The `redis` section made ready for the client: addresses, secrets read from the environment, certificates
 * read from disk. Everything that can be wrong without a connection shows here, at check and at start.
 */
import { readFileSync } from 'node:fs';
import { resolve } from 'node:path';
import { createSecureContext } from 'node:tls';
import type { ClusterOptions, RedisOptions } from 'ioredis';
import { Fault } from '../core/errors.js';
import type { RedisConfig } from './config.js';

export type RedisSettings = Readonly<{
  /** Where it is, for messages; without user and password. */
  address: string;
  deadlineMs: number;
  /** With `nodes`: a cluster. */
  options: RedisOptions;
  nodes: readonly Address[] | undefined;
  clusterOptions: ClusterOptions;
}>;

type Address = Readonly<{ host: string; port: number }>;

export type SettingsDeps = Readonly<{
  baseDir: string;
  environment?: Readonly<Record<string, string | undefined>>;
  random?: () => number;
}>;

const CONNECT_MS = 1_000;
/** A connection on which nothing comes for so long is dropped: what it carries will not come any more. */
const SILENT_MS = 1_000;
const RECONNECT_MS_MAX = 500;
const KEEP_ALIVE_MS = 10_000;
const REDIRECTIONS_MAX = 5;

/** Throws Fault REDIS_SETTINGS: a file or variable is missing, a certificate does not fit its key. */
export function redisSettings(config: RedisConfig, deps: SettingsDeps): RedisSettings {
  const { random = Math.random } = deps;
  const secret = secretReader(deps.environment ?? process.env);
  const backOff = (times: number): number => {
    const fullMs = Math.min(RECONNECT_MS_MAX, 25 * 2 ** Math.min(times, 10));
    return Math.round(fullMs * (0.5 + random() / 2));
  };
  const url = config.url === undefined ? undefined : new URL(config.url);
  const secure = config.tls !== undefined || url?.protocol === 'rediss:';
  const tls = secure ? readTls(config.tls ?? {}, deps.baseDir) : undefined;
  const username = config.username ?? (url?.username ? decodeURIComponent(url.username) : undefined);
  const password =
    secret(config.passwordEnv) ?? (url?.password ? decodeURIComponent(url.password) : undefined);
  const common: RedisOptions = {
    ...defined({ username, password, tls }),
    connectionName: 'tidegate',
    connectTimeout: CONNECT_MS,
    disconnectTimeout: 200,
    socketTimeout: Math.max(SILENT_MS, config.deadline + SILENT_MS / 2),
    keepAlive: KEEP_ALIVE_MS,
    enableOfflineQueue: false,
    autoResendUnfulfilledCommands: false,
    maxRetriesPerRequest: 0,
    enableReadyCheck: false,
    retryStrategy: backOff,
  };
  const nodes = config.cluster?.map(splitAddress);
  const { sentinel } = config;
  const place = ((): RedisOptions => {
    if (sentinel !== undefined) {
      return {
        sentinels: sentinel.addresses.map(splitAddress),
        name: sentinel.name,
        // It alone says whether the node is a master.
        enableReadyCheck: true,
        maxLoadingRetryTime: RECONNECT_MS_MAX / 2,
        sentinelRetryStrategy: backOff,
        sentinelCommandTimeout: CONNECT_MS,
        enableTLSForSentinelMode: tls !== undefined,
        ...defined({
          sentinelUsername: sentinel.username,
          sentinelPassword: secret(sentinel.passwordEnv),
          sentinelTLS: sentinel.tls ? (tls ?? {}) : undefined,
        }),
      };
    }
    if (url === undefined) return {};
    const host = url.hostname.replace(/^\[|\]$/g, '');
    return { host, port: Number(url.port) || 6379, db: Number(url.pathname.slice(1)) || 0 };
  })();
  return {
    address: shown(config, url),
    deadlineMs: config.deadline,
    options: { ...common, ...place, keyPrefix: config.keyPrefix, lazyConnect: true },
    nodes,
    clusterOptions: {
      redisOptions: common,
      keyPrefix: config.keyPrefix,
      lazyConnect: true,
      enableOfflineQueue: false,
      clusterRetryStrategy: backOff,
      clusterNodeRetryStrategy: backOff,
      maxRedirections: REDIRECTIONS_MAX,
      // A command whose connection broke may have run: it is never sent again.
      retryDelayOnFailover: 0,
      retryDelayOnClusterDown: 0,
      retryDelayOnTryAgain: 5,
      slotsRefreshTimeout: CONNECT_MS,
      slotsRefreshInterval: 5_000,
      // Names stay names, so that certificates fit; each connection resolves its own.
      dnsLookup: (name, found) => found(null, name),
    },
  };
}

function shown(config: RedisConfig, url: URL | undefined): string {
  if (config.sentinel !== undefined) return `${config.sentinel.name} of ${config.sentinel.addresses.join(', ')}`;
  return url === undefined ? (config.cluster ?? []).join(', ') : `${url.hostname}:${url.port || '6379'}`;
}

function secretReader(environment: NonNullable<SettingsDeps['environment']>) {
  return (name: string | undefined): string | undefined => {
    if (name === undefined) return undefined;
    const value = environment[name];
    if (value === undefined || value === '')
      throw new Fault('REDIS_SETTINGS', { why: `the environment variable ${name} is not set` });
    return value;
  };
}

type Tls = NonNullable<RedisOptions['tls']>;

function readTls(config: NonNullable<RedisConfig['tls']>, baseDir: string): Tls {
  const read = (file: string | undefined): Buffer | undefined => {
    if (file === undefined) return undefined;
    try {
      return readFileSync(resolve(baseDir, file));
    } catch (error) {
      throw new Fault('REDIS_SETTINGS', { why: `${file} cannot be read` }, error);
    }
  };
  const { ca, cert, key, servername } = config;
  const tls: Tls = defined({ ca: read(ca), cert: read(cert), key: read(key), servername });
  try {
    createSecureContext(tls);
  } catch (error) {
    throw new Fault('REDIS_SETTINGS', { why: 'the files of redis.tls are no certificates and key' }, error);
  }
  return tls;
}

function splitAddress(text: string): Address {
  const at = text.lastIndexOf(':');
  return { host: text.slice(0, at).replace(/^\[|\]$/g, ''), port: Number(text.slice(at + 1)) };
}

/** Without the entries that are undefined. */
function defined<T extends Record<string, unknown>>(given: T): { [K in keyof T]?: NonNullable<T[K]> } {
  return Object.fromEntries(Object.entries(given).filter(([, value]) => value !== undefined)) as never;
}
