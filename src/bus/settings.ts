/**
 * The `kafka` section made ready for the client: secrets read from the environment, certificates from disk.
 * What can be wrong without a connection shows here, at check and at start.
 */
import { readFileSync } from 'node:fs';
import { resolve } from 'node:path';
import { createSecureContext, type ConnectionOptions } from 'node:tls';
import type { KafkaConfig as ClientConfig, SASLOptions } from 'kafkajs';
import { Fault } from '../core/errors.js';
import type { KafkaConfig } from './config.js';

export type KafkaSettings = Readonly<{
  config: KafkaConfig;
  /** Where it is, for messages. */
  address: string;
  client: ClientConfig;
}>;

export type KafkaSettingsDeps = Readonly<{
  baseDir: string;
  environment?: Readonly<Record<string, string | undefined>>;
}>;

/**
 * A call that failed so often is given back: the loops above make a new client then. kafkajs' own pauses grow
 * to 30 s and it has died in them (tulios/kafkajs #1686, #628).
 */
const RETRY = { retries: 3, initialRetryTime: 50, maxRetryTime: 500, factor: 0.3 } as const;

/** Throws Fault KAFKA_SETTINGS: a file or variable is missing, a certificate does not fit its key. */
export function kafkaSettings(config: KafkaConfig, deps: KafkaSettingsDeps): KafkaSettings {
  const { brokers, clientId, connectTimeout, requestTimeout } = config;
  const ssl = config.tls === false ? undefined : config.tls === true || readTls(config.tls, deps.baseDir);
  const sasl = config.sasl && signIn(config.sasl, deps.environment ?? process.env);
  return {
    config,
    address: brokers.join(', '),
    client: {
      brokers: [...brokers],
      clientId,
      connectionTimeout: connectTimeout,
      authenticationTimeout: Math.max(connectTimeout, 1_000),
      requestTimeout,
      enforceRequestTimeout: true,
      retry: RETRY,
      ...(ssl === undefined ? {} : { ssl }),
      ...(sasl === undefined ? {} : { sasl }),
    },
  };
}

type Sasl = NonNullable<KafkaConfig['sasl']>;

function signIn(
  { mechanism, username, passwordEnv }: Sasl,
  environment: NonNullable<KafkaSettingsDeps['environment']>,
): SASLOptions {
  const password = environment[passwordEnv];
  if (password === undefined || password === '')
    throw new Fault('KAFKA_SETTINGS', { why: `the environment variable ${passwordEnv} is not set` });
  return { mechanism, username, password } as SASLOptions;
}

type TlsFiles = Exclude<KafkaConfig['tls'], boolean>;

function readTls({ ca, cert, key }: TlsFiles, baseDir: string): ConnectionOptions {
  const read = (file: string | undefined): Buffer | undefined => {
    if (file === undefined) return undefined;
    try {
      return readFileSync(resolve(baseDir, file));
    } catch (error) {
      throw new Fault('KAFKA_SETTINGS', { why: `${file} cannot be read` }, error);
    }
  };
  const given = { ca: read(ca), cert: read(cert), key: read(key) };
  const tls = Object.fromEntries(Object.entries(given).filter(([, value]) => value !== undefined));
  try {
    createSecureContext(tls);
  } catch (error) {
    throw new Fault('KAFKA_SETTINGS', { why: 'the files of kafka.tls are no certificates and key' }, error);
  }
  return tls;
}
