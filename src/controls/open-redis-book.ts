/** Opens the book of bans that a config's `redis` section leads to, with a connection of its own. */
import type { RedisConfig } from '../redis/config.js';
import { redisSettings, type RedisSettings } from '../redis/settings.js';
import { loadBanScript } from './ban-script.js';
import type { BookRules } from './memory-book.js';
import { createRedisBook, type RedisBook } from './redis-book.js';

export type OpenBook = Readonly<{
  /** Closing it closes the connection. */
  book: RedisBook;
  settings: RedisSettings;
  /** Resolves when connected, when the first attempt failed, or after `ms`. */
  settled(ms: number): Promise<void>;
}>;

/** Throws Fault REDIS_SETTINGS. A Redis that is away is no error here: each call tells. */
export async function openRedisBook(
  redis: RedisConfig,
  { baseDir, rules }: Readonly<{ baseDir: string; rules: () => BookRules }>,
): Promise<OpenBook> {
  const settings = redisSettings(redis, { baseDir });
  // Loaded where Redis is used alone: its client is 5 MB.
  const { connectRedis } = await import('../redis/client.js');
  const client = connectRedis(settings, loadBanScript());
  const book = createRedisBook({ client, keyPrefix: redis.keyPrefix, rules });
  return { book: { ...book, close: () => client.close() }, settings, settled: client.settled };
}
