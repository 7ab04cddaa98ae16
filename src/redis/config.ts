/**
 * The `redis` section: where shared counters live, how long a request waits for them, and when they are left
 * alone. No message shows a value of it that may hold a password.
 */
import { z } from 'zod';
import { duration } from '../core/schema.js';

const ADDRESS = /^(?:\[[0-9a-f:.]+\]|[^\s:/@[\]]+):\d{1,5}$/i;

const address = z.string().superRefine((text, context) => {
  if (ADDRESS.test(text) && Number(text.slice(text.lastIndexOf(':') + 1)) <= 65_535) return;
  const message = text.includes('@')
    ? 'a host and port without a name or password fits, such as cache-1:6379; passwords go to passwordEnv'
    : `found ${JSON.stringify(text)}; a host and port such as cache-1:6379 or [::1]:6379 fits`;
  context.addIssue({ code: 'custom', message });
});

const url = z.string().superRefine((text, context) => {
  const parsed = URL.canParse(text) ? new URL(text) : undefined;
  const fits =
    parsed !== undefined &&
    /^rediss?:$/.test(parsed.protocol) &&
    parsed.hostname !== '' &&
    /^\/?\d{0,4}$/.test(parsed.pathname) &&
    parsed.search === '' &&
    parsed.hash === '' &&
    decodes(parsed.username) &&
    decodes(parsed.password);
  if (!fits)
    context.addIssue({
      code: 'custom',
      message: 'a URL such as redis://cache-1:6379 or rediss://user:password@cache-1:6380/0 fits',
    });
});

const tlsSection = z.strictObject({
  ca: z.string().optional().describe('Certificates to trust, PEM file; those of the system where absent.'),
  cert: z.string().optional().describe('Own certificate, PEM file, where Redis asks for one.'),
  key: z.string().optional().describe('Its private key, PEM file.'),
  servername: z.string().min(1).max(255).optional().describe('Name in the certificate, if not the host.'),
});

const sentinelSection = z.strictObject({
  name: z.string().min(1).max(255).describe('Name of the master, as the Sentinels know it.'),
  addresses: z.array(address).min(1).max(32).describe('Sentinels, `host:26379`.'),
  username: z.string().min(1).max(255).optional().describe('ACL user at the Sentinels.'),
  passwordEnv: z
    .string()
    .min(1)
    .optional()
    .describe('Environment variable with the password of the Sentinels.'),
  tls: z.boolean().default(false).describe('Speak TLS to the Sentinels too, with the files of `redis.tls`.'),
});

const whole = (fallback: number, min: number, max: number) =>
  z.number().int().min(min).max(max).default(fallback);

const breakerSection = z
  .strictObject({
    failures: whole(10, 2, 10_000).describe('So many failures in a row open the breaker.'),
    ratio: z
      .number()
      .min(0.05)
      .max(1)
      .default(0.5)
      .describe('This part of all calls of the last second failing opens it too (from 20 calls on).'),
    probeEvery: duration('250ms', { min: 20, max: 10_000 }).describe(
      'While open, one probe so often, up to a half of it sooner by chance; requests do not wait meanwhile.',
    ),
    probes: whole(2, 1, 100).describe('So many probes answered in a row let requests through again.'),
    ramp: duration('300ms', { max: 10_000 }).describe(
      'How long, after that, the part of requests that asks Redis grows from none to all.',
    ),
  })
  .prefault({});

export const redisSection = z
  .strictObject({
    url: url
      .optional()
      .describe('One Redis: `redis://host:6379`, or with TLS `rediss://user:password@host:6380/0`.'),
    sentinel: sentinelSection.optional().describe('A master that Sentinels watch, instead of `url`.'),
    cluster: z
      .array(address)
      .min(1)
      .max(64)
      .optional()
      .describe('Redis Cluster, instead of `url`: some of its nodes, `host:6379`; the rest is found.'),
    username: z.string().min(1).max(255).optional().describe('ACL user.'),
    passwordEnv: z.string().min(1).optional().describe('Environment variable with the password.'),
    tls: tlsSection.optional().describe('TLS to Redis; `rediss://` alone trusts what the system trusts.'),
    keyPrefix: z
      .string()
      .max(64)
      .regex(/^[A-Za-z0-9._:/-]*$/)
      .default('')
      .describe('Before every key, where several gates share one Redis; no braces.'),
    deadline: duration('10ms', { min: 1, max: 5_000 }).describe(
      'Longest wait of a request for its limits; after it `limits.onFailure` holds.',
    ),
    inFlightMax: whole(2_000, 1, 100_000).describe('Most requests of one worker that wait for Redis.'),
    breaker: breakerSection.describe('When Redis is left alone, and how it is taken back.'),
  })
  .superRefine((redis, context) => {
    const given = (['url', 'sentinel', 'cluster'] as const).filter((key) => redis[key] !== undefined);
    const refuse = (message: string, ...path: string[]): void =>
      context.addIssue({ code: 'custom', path, message });
    if (given.length !== 1)
      refuse(
        given.length === 0 ? 'one of url, sentinel, cluster is needed' : `${given.join(' and ')}: one of them fits`,
      );
    const parsed = redis.url !== undefined && URL.canParse(redis.url) ? new URL(redis.url) : undefined;
    if (parsed !== undefined && parsed.password !== '' && redis.passwordEnv !== undefined)
      refuse('the password is in url already; one of them fits', 'passwordEnv');
    if (parsed !== undefined && parsed.username !== '' && redis.username !== undefined)
      refuse('the user is in url already; one of them fits', 'username');
    if (redis.username !== undefined && redis.passwordEnv === undefined && !parsed?.password)
      refuse('a user needs a password: set passwordEnv', 'username');
    if (redis.sentinel?.username !== undefined && redis.sentinel.passwordEnv === undefined)
      refuse('a user needs a password: set passwordEnv', 'sentinel', 'username');
    if (parsed?.protocol === 'redis:' && redis.tls !== undefined)
      refuse('the URL says redis://, without TLS; rediss:// fits, or no tls', 'tls');
    if ((redis.tls?.cert === undefined) !== (redis.tls?.key === undefined))
      refuse('cert and key fit together only', 'tls');
    if (redis.sentinel?.tls === true && redis.tls === undefined)
      refuse('redis.tls says with which files; `tls: {}` trusts what the system trusts', 'sentinel', 'tls');
  })
  .optional()
  .describe('Shared counters in Redis, for several gates; absent: embedded, for one.');

export type RedisConfig = NonNullable<z.output<typeof redisSection>>;

function decodes(text: string): boolean {
  try {
    decodeURIComponent(text);
    return true;
  } catch {
    return false;
  }
}
