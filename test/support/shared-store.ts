/** The whole way to Redis as a worker opens it, from a `redis` section, for tests below the gate. */
import type { Check, CheckResult } from '../../src/limits/limiter-contract.js';
import type { BreakerState } from '../../src/limits/stores/breaker.js';
import { guardedStore, type GuardedStore } from '../../src/limits/stores/guarded.js';
import { redisStore } from '../../src/limits/stores/redis.js';
import { Fault } from '../../src/core/errors.js';
import { connectRedis, type RedisClient } from '../../src/redis/client.js';
import { redisSection } from '../../src/redis/config.js';
import { loadCheckScript } from '../../src/redis/scripts.js';
import { redisSettings } from '../../src/redis/settings.js';

export type SharedStore = Readonly<{
  store: GuardedStore;
  client: RedisClient;
  states: BreakerState[];
  /** One request: how it ended. */
  hit(key: string, given?: Partial<Check>): Promise<'passed' | 'refused' | Fault>;
  close(): Promise<void>;
}>;

type Opening = Readonly<{
  baseDir?: string;
  environment?: Readonly<Record<string, string>>;
  /** False: does not wait for the connection. */
  wait?: boolean;
}>;

/** Without a wish for it the deadline is wide, so that a busy machine is no slow Redis. */
export async function openShared(section: object, given: Opening = {}): Promise<SharedStore> {
  const config = redisSection.parse({ deadline: '5s', ...section });
  if (config === undefined) throw new Error('no redis section');
  const { baseDir = '/', environment = {} } = given;
  const client = connectRedis(redisSettings(config, { baseDir, environment }), loadCheckScript());
  const states: BreakerState[] = [];
  const { ramp, probeEvery, ...breaker } = config.breaker;
  const store = guardedStore(redisStore(client), {
    deadlineMs: config.deadline,
    inFlightMax: config.inFlightMax,
    breaker: { ...breaker, rampMs: ramp, probeEveryMs: probeEvery },
    onState: (state) => states.push(state),
  });
  if (given.wait !== false) await client.settled(5_000);
  return {
    store,
    client,
    states,
    async hit(key, wish = {}) {
      try {
        const [result] = (await store.checkAll([checkOf(key, wish)])) as [CheckResult];
        return result.allowed ? 'passed' : 'refused';
      } catch (fault) {
        if (fault instanceof Fault) return fault;
        throw fault;
      }
    },
    close: () => store.close(),
  };
}

export function checkOf(key: string, given: Partial<Check> = {}): Check {
  const limit = given.limit ?? 1000;
  return {
    key: `rl:ip:{${key}}:test/fixed-window/60000`,
    algorithm: 'fixed-window',
    limit,
    windowMs: 60_000,
    burst: limit,
    cost: 1,
    ...given,
  };
}

/** Looks again and again until it holds; false after `ms`. */
export async function until(holds: () => boolean | Promise<boolean>, ms = 10_000): Promise<boolean> {
  const untilMs = Date.now() + ms;
  while (Date.now() < untilMs) {
    if (await holds()) return true;
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
  return false;
}
