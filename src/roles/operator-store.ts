/**
 * The counters as operators ask for them: the supervisor's own, or those in Redis. The line to Redis is made
 * for one ask and closed after it, so that it follows every reload and nothing idles between the rare asks.
 */
import type { Config } from '../config/schema.js';
import { Fault } from '../core/errors.js';
import { redisStore, type CounterStore } from '../limits/index.js';
import { connectRedis } from '../redis/client.js';
import { loadCheckScript } from '../redis/scripts.js';
import { redisSettings } from '../redis/settings.js';

const CONNECT_MS = 2_000;
/** An operator waits longer than a request. */
const ASK_MS = 5_000;

/** Runs one piece of work on a store. */
export type WithStore = <T>(work: (store: CounterStore) => Promise<T>) => Promise<T>;

/** Rejects with a Fault where Redis is away or does not answer within seconds; then nothing stays open. */
export function operatorStore(config: () => Config, embedded: CounterStore): WithStore {
  return async (work) => {
    const { redis, baseDir } = config();
    if (redis === undefined) return work(embedded);
    const client = connectRedis(redisSettings(redis, { baseDir }), loadCheckScript());
    const store = redisStore(client);
    let timer: NodeJS.Timeout | undefined;
    const late = new Promise<never>((_, reject) => {
      timer = setTimeout(() => reject(new Fault('REDIS_TIMEOUT', { ms: ASK_MS })), ASK_MS);
    });
    try {
      const asked = client.settled(CONNECT_MS).then(() => work(store));
      return await Promise.race([asked, late]);
    } finally {
      clearTimeout(timer);
      await client.close();
    }
  };
}
