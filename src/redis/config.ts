/** Where shared counters live. Not yet used: 0.1 keeps them in the supervisor and refuses this key. */
import { z } from 'zod';

export const redisSection = z
  .strictObject({
    url: z.url({ protocol: /^rediss?$/ }).describe('Redis, `redis://host:6379` or `rediss://host:6380`.'),
  })
  .optional()
  .describe('Shared counters in Redis; absent: embedded. Not supported yet in 0.1.');

export type RedisConfig = z.output<typeof redisSection>;
