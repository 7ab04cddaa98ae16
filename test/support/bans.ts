/** A book of bans on a real Redis, for tests; ends with the test. */
import type { Test } from 'tap';
import { loadBanScript } from '../../src/controls/ban-script.js';
import type { BookRules } from '../../src/controls/memory-book.js';
import { createRedisBook, type RedisBook } from '../../src/controls/redis-book.js';
import { RULES } from '../../src/controls/testing.js';
import { connectRedis } from '../../src/redis/client.js';
import { redisSection } from '../../src/redis/config.js';
import { redisSettings } from '../../src/redis/settings.js';

export type BookOptions = Readonly<{ rules?: BookRules; nowMs?: () => number }>;

/** `section`: as in the config's `redis`. */
export async function redisBook(
  t: Test,
  section: Readonly<Record<string, unknown>>,
  { rules = RULES, nowMs }: BookOptions = {},
): Promise<RedisBook> {
  const config = redisSection.parse(section);
  if (config === undefined) throw new Error('a redis section is needed');
  const client = connectRedis(redisSettings(config, { baseDir: '/' }), loadBanScript());
  t.teardown(() => client.close());
  await client.settled(5_000);
  const clock = nowMs === undefined ? {} : { nowMs };
  return createRedisBook({ client, keyPrefix: config.keyPrefix, rules: () => rules, ...clock });
}
