/**
 * The `limits` section: policies over identities. The shipped policies hold unless one of the same name
 * replaces them.
 */
import { z } from 'zod';
import { IDENTITIES } from '../core/identity.js';
import { duration, parseRate } from '../core/schema.js';
import { crossCheck } from './cross-check.js';
import { STATUS_CLASS } from './status.js';

const LIMIT_MAX = 1_000_000;
const WINDOW_MS_MAX = 7 * 86_400_000;
const RATE_BOUND = `at most ${LIMIT_MAX} in at most 7 days`;

export const ON_FAILURE = ['local', 'pass', 'refuse'] as const;

const rate = z.string().transform((text, context) => {
  const parsed = parseRate(text);
  if (parsed !== undefined && parsed.limit <= LIMIT_MAX && parsed.windowMs <= WINDOW_MS_MAX) return parsed;
  context.addIssue({
    code: 'custom',
    message: `found ${JSON.stringify(text)}; a rate such as 5/min or 60/10s fits (${RATE_BOUND})`,
  });
  return z.NEVER;
});

const oneOrMore = <T extends z.ZodType>(item: T) => z.union([item, z.array(item).min(1).max(32)]);
const identity = z.enum(IDENTITIES);
const globText = z
  .string()
  .max(512)
  .regex(/^(?:\/|\*)/, 'a path glob that starts with / or * fits');

const headerMatch = z
  .strictObject({
    name: z
      .string()
      .regex(/^[!#$%&'*+\-.^_`|~0-9A-Za-z]{1,128}$/, 'a header name such as X-Api-Version fits')
      .describe('Name of the header; letter case does not count.'),
    value: oneOrMore(z.string().min(1).max(512))
      .optional()
      .describe('Value or values, * is any text; any value where absent.'),
    present: z.boolean().default(true).describe('False: the header must be missing.'),
  })
  .refine((header) => header.present || header.value === undefined, {
    path: ['value'],
    error: 'a header that must be missing has no value: leave value out, or present',
  });

const matchSection = z.strictObject({
  site: oneOrMore(z.string().min(1).max(64)).optional().describe('Name or names of sites; all where absent.'),
  method: oneOrMore(z.string().regex(/^[A-Za-z]+$/, 'a method such as POST fits'))
    .optional()
    .describe('Method or methods; all where absent.'),
  path: oneOrMore(globText)
    .optional()
    .describe('Path glob or globs: * is one segment, /** everything below; letter case does not count.'),
  host: oneOrMore(z.string().min(1).max(255))
    .optional()
    .describe('Host or hosts; *.example.com takes every subdomain.'),
  header: oneOrMore(headerMatch)
    .optional()
    .describe('Header or headers, by name, value and whether it is there; all of them must hold.'),
});

const countOn = z
  .strictObject({
    status: oneOrMore(
      z.union([
        z.int().min(100).max(599),
        z.string().regex(STATUS_CLASS, 'a class from 1xx to 5xx fits'),
      ]),
    ).describe('Statuses of the origin that count: 401, or a class such as 4xx.'),
  })
  .describe(
    'Counts the answer of the origin instead of the request: failed logins, misses. Until the answer is there ' +
      'the request is only asked about, so requests under way at once may go over; with exact each is taken ' +
      'at the request and given back, and none goes over.',
  );

const sharedAddress = z
  .strictObject({
    sessions: z
      .int()
      .min(2)
      .max(1000)
      .default(8)
      .describe('From so many sessions and keys on that the origin has accepted, an address is a shared one.'),
    factorMax: z
      .int()
      .min(1)
      .max(1000)
      .default(100)
      .describe(
        'A shared address gets its limit once for each of its sessions, at most so many times; 1 switches it off.',
      ),
    apart: duration('1m', { min: 0, max: 3_600_000 }).describe(
      'A session counts from a second good answer this long after a first.',
    ),
    growth: rate
      .prefault('8/min')
      .describe('So many sessions of one address begin to count in which time: how fast its limit may widen.'),
    idle: duration('30m', { min: 1000, max: 86_400_000 }).describe(
      'A session without a good answer for so long no longer counts.',
    ),
  })
  .prefault({});

const whole = z.number().int().min(1).max(LIMIT_MAX);

export const policySection = z
  .strictObject({
    name: z
      .string()
      .regex(/^[A-Za-z][A-Za-z0-9_-]{0,63}$/, 'letters, digits, - and _ (at most 64) fit')
      .describe('Name in logs, metrics and finding ids.'),
    enabled: z.boolean().default(true).describe('False switches the policy off, also a shipped one.'),
    match: matchSection.prefault({}).describe('Which requests it counts.'),
    by: z
      .union([
        identity,
        z.array(identity).min(1).max(8),
        z.strictObject({ all: z.array(identity).min(1).max(4) }),
      ])
      .default(['ip'])
      .describe('Identities: the first one present counts; { all: [...] } joins them.'),
    limit: rate.prefault('600/min').describe('How many in which time, such as 5/min.'),
    algorithm: z
      .enum(['fixed-window', 'sliding-log', 'sliding-counter', 'leaky-bucket', 'token-bucket'])
      .default('sliding-counter')
      .describe('How it counts.'),
    exact: z.boolean().default(false).describe('Never counted through a local cache.'),
    cache: z
      .boolean()
      .optional()
      .describe('Whether the hot-key cache may count it; where absent: unless exact or sliding-log.'),
    cost: whole.default(1).describe('What one request takes from the limit.'),
    burst: whole
      .optional()
      .describe('Bucket size for token-bucket and leaky-bucket; the limit where absent.'),
    burstAlarm: rate
      .optional()
      .describe('A second, shorter rate that is only written down when exceeded, never refused.'),
    delayMax: duration('0s', { min: 0, max: 10_000 }).describe(
      'leaky-bucket only: requests go on one by one at the rate, each waiting at most this long; who would ' +
        'wait longer is refused. 0: what fits into the bucket passes at once, nothing waits.',
    ),
    countOn: countOn.optional(),
    widen: z
      .boolean()
      .optional()
      .describe('Widened for shared addresses (limits.sharedAddress); where absent: by ip and not exact.'),
    observe: z.boolean().default(false).describe('Write down what would be refused, refuse nothing.'),
    onFailure: z
      .enum(ON_FAILURE)
      .optional()
      .describe('What holds while the store is away; limits.onFailure where absent.'),
    message: z.string().max(300).optional().describe('Sentence for the finding when the limit is exceeded.'),
  })
  .superRefine(crossCheck);

export type PolicyConfig = z.output<typeof policySection>;
export type PolicyInput = z.input<typeof policySection>;

const hotKeyCacheSection = z.strictObject({
  enabled: z.boolean().default(true).describe('False: each check goes to Redis. Without Redis it is not used.'),
  sync: duration('100ms', { min: 10, max: 10_000 }).describe('A hot key is settled with Redis this often.'),
  hotAfter: z
    .int()
    .min(1)
    .max(10_000)
    .default(3)
    .describe('A key is hot once a worker saw it more often than this within one sync.'),
  keysMax: z.int().min(16).max(1_000_000).default(10_000).describe('Most hot keys a worker holds.'),
  overshoot: z
    .int()
    .min(1)
    .max(100)
    .default(10)
    .describe('Percent of a limit that all workers of all nodes together may pass above it.'),
});

/** Those of `defaults.ts`. */
export const SHIPPED_NAMES = ['ingress', 'api', 'login', 'passwordReset'];

export const limitsSection = z
  .strictObject({
    enabled: z.boolean().default(true).describe('False counts nothing at all.'),
    onFailure: z
      .enum(ON_FAILURE)
      .default('local')
      .describe('While the counter store is away: local (this worker holds its share), pass or refuse.'),
    headers: z
      .enum(['refused', 'always', 'off'])
      .default('refused')
      .describe('Which answers carry RateLimit fields: refused ones, those of the origin too, or none.'),
    hotKeyCache: hotKeyCacheSection.prefault({}).describe('Counts hot keys of a shared store locally.'),
    points: z
      .number()
      .min(0)
      .max(100)
      .default(25)
      .describe('Points for a request over its limit, once however many policies say so.'),
    ipv6WideFactor: z
      .number()
      .int()
      .min(1)
      .max(256)
      .default(8)
      .describe('An IPv6 /56 gets this many times the limit of one address prefix.'),
    addressFactor: z
      .number()
      .int()
      .min(1)
      .max(1000)
      .default(50)
      .describe(
        'Where a key or session counts and ip is a fallback, the address gets this many times the limit.',
      ),
    sharedAddress: sharedAddress.describe(
      'A wider limit for addresses that many people share: offices, carriers.',
    ),
    backgroundMax: z
      .int()
      .min(1)
      .max(1_000_000)
      .default(10_000)
      .describe('Counts on answers that may be under way to the store at once; further ones are dropped.'),
    nodes: z
      .int()
      .min(1)
      .max(1000)
      .optional()
      .describe('How many gates share the limits in Redis; where absent they count each other there.'),
    keysMax: z
      .number()
      .int()
      .min(1000)
      .max(10_000_000)
      .default(200_000)
      .describe('Most counters held in memory at once.'),
    policies: z
      .array(policySection)
      .max(256)
      .default([])
      .superRefine((policies, context) => {
        const seen = new Map(SHIPPED_NAMES.map((name) => [name.toLowerCase(), name]));
        const taken = new Set<string>();
        policies.forEach(({ name }, at) => {
          const other = seen.get(name.toLowerCase()) ?? name;
          const twice = taken.has(name) ? 'twice; each name fits once' : undefined;
          const cased = `beside ${JSON.stringify(other)}; names that differ in more than letter case fit`;
          const wrong = twice ?? (other === name ? undefined : cased);
          if (wrong !== undefined)
            context.addIssue({
              code: 'custom',
              path: [at, 'name'],
              message: `found ${JSON.stringify(name)} ${wrong}`,
            });
          taken.add(name);
          seen.set(name.toLowerCase(), other);
        });
      })
      .describe(
        'Policies; the shipped ones hold unless replaced by name: ingress (by address: replace it where many ' +
          'people share one), api, login, passwordReset.',
      ),
  })
  .prefault({});

export type LimitsConfig = z.output<typeof limitsSection>;
