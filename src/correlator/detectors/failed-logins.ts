/**
 * Failed logins over one endpoint from many addresses, each below its own limit: credential stuffing (OWASP
 * OAT-008) and password spraying. What tells it from people: many addresses that fail again and again and
 * (nearly) never get in. People who mistype get in afterwards; how many never do follows from how many did.
 * Blind to an attacker who logs in with accounts of its own in between.
 */
import { z } from 'zod';
import { span } from '../../core/schema.js';
import type { Observation } from '../../core/observation.js';
import { openTimeBuckets } from '../../structures/time-buckets.js';
import { detectorShape } from '../common.js';
import type { Detection, Detector, DetectorPart, GoodRequest } from '../detector.js';
import { templateOf } from '../route.js';
import type { Attempts, Bucket, Endpoint, LoginPart } from './login-attempts.js';
import {
  gather,
  newEndpoint,
  openBucket,
  saveBucket,
  savedBucket,
  sizeOf,
  traitOf,
} from './login-attempts.js';
import { type Crowd, type Failing, findCrowd } from './login-crowd.js';
import { byCount, sight, spanOf, suspectOf } from './sighting.js';

export const failedLoginsSection = z
  .strictObject({
    ...detectorShape(0.8),
    window: span('1h', { min: 60_000, max: 86_400_000 }).describe(
      'How far back attempts are counted; a faster look takes the last sixth of it.',
    ),
    addresses: z
      .number()
      .int()
      .min(2)
      .max(100_000)
      .default(20)
      .describe('From so many addresses that only fail on one endpoint it is an attack.'),
    failures: z
      .number()
      .int()
      .min(1)
      .max(1000)
      .default(4)
      .describe('Failed logins from which an address counts as one that only fails.'),
    goodShare: z
      .number()
      .min(0)
      .max(1)
      .default(0.1)
      .describe('Spared: an address with more good logins than this part of its failed ones.'),
    peopleShare: z
      .number()
      .min(0)
      .max(1)
      .default(0.02)
      .describe(
        'For each address that got in, how many people give up after `failures` attempts; it is an attack ' +
          'from three times as many on. Halved with each further attempt.',
      ),
    statuses: z
      .array(z.number().int().min(400).max(499))
      .default([400, 401, 403, 422])
      .describe("Answers of the origin to a login that failed (OAuth's is 400, many frameworks' 422)."),
    words: z
      .array(z.string().min(1).max(64))
      .default([
        'login',
        'log-in',
        'log_in',
        'logon',
        'signin',
        'sign-in',
        'sign_in',
        'session',
        'sessions',
        'auth',
        'authenticate',
        'token',
        'wp-login',
        'j_security_check',
        'j_spring_security_check',
      ])
      .describe('A POST to a path that ends in one of these, whatever its extension, is a login.'),
    paths: z
      .array(z.string().startsWith('/').max(256))
      .default([])
      .describe('More paths that take logins, in full and in lower case.'),
    formWords: z
      .array(z.string().min(1).max(64))
      .default(['wp-login'])
      .describe('Of these, the ones whose answer 200 is the form again: the login failed.'),
    entriesMax: z
      .number()
      .int()
      .min(100)
      .max(1_000_000)
      .default(20_000)
      .describe('Addresses remembered for each partition; beyond, the oldest time is forgotten.'),
  })
  .prefault({});

export type FailedLoginsConfig = z.output<typeof failedLoginsSection>;

const BUCKETS = 12;
const RECENT = 2;
const ENDPOINTS_MAX = 100;
const savedPart = z.tuple([
  z.literal('failedLogins/1'),
  z.number(),
  z.array(z.tuple([z.number(), savedBucket])),
]);

/** Opens parts that `evaluate` of the same detector understands; throws a ZodError on other text. */
export function createFailedLogins(config: FailedLoginsConfig): Detector {
  const bucketMs = Math.ceil(config.window / BUCKETS);
  const logins = loginPaths(config);
  const parts = new WeakMap<DetectorPart, LoginPart>();
  return {
    name: 'failedLogins',
    open(saved) {
      const part = openPart(config, { bucketMs, logins, saved });
      parts.set(part, part);
      return part;
    },
    evaluate(given, nowMs) {
      const mine = given.flatMap((part) => parts.get(part) ?? []);
      const found = new Map<string, Detection>();
      // The long look last: it holds more evidence of the same attack.
      for (const span of [RECENT, BUCKETS]) {
        for (const [endpoint, seen] of gather(mine, nowMs - span * bucketMs)) {
          const detection = judge(config, endpoint, seen);
          const known = found.get(endpoint)?.confidence ?? 0;
          if (detection !== undefined && detection.confidence >= known) found.set(endpoint, detection);
        }
      }
      return [...found.values()];
    },
  };
}

type Ways = Readonly<{ bucketMs: number; logins: LoginPaths; saved: unknown }>;

function openPart(config: FailedLoginsConfig, { bucketMs, logins, saved }: Ways): LoginPart {
  let held = 0;
  const [, lost, savedBuckets] = saved === undefined ? [0, 0, []] : savedPart.parse(saved);
  let dropped = lost;
  const buckets = openTimeBuckets<Bucket>({
    bucketMs,
    keep: BUCKETS,
    make: () => new Map(),
    onLeave: (bucket) => (held -= sizeOf(bucket)),
    saved: savedBuckets.map(([startMs, bucket]) => [startMs, openBucket(bucket)]),
  });
  for (const [, bucket] of buckets.all()) held += sizeOf(bucket);
  const statuses = new Set(config.statuses);

  function makeRoom(timeMs: number): boolean {
    if (held < config.entriesMax) return true;
    const before = held;
    if (!buckets.giveUpOldest(timeMs)) dropped++;
    else dropped += before - held;
    return held < config.entriesMax;
  }

  function attemptsOf({ site, path, key, timeMs }: Observation): [Endpoint, Attempts] | undefined {
    const bucket = buckets.at(timeMs);
    if (bucket === undefined) return undefined;
    const name = `${site} POST ${templateOf(path)}`;
    let endpoint = bucket.get(name);
    const known = endpoint?.addresses.get(key);
    if (endpoint !== undefined && known !== undefined) return [endpoint, known];
    if (!makeRoom(timeMs)) return undefined;
    if (endpoint === undefined) {
      if (bucket.size >= ENDPOINTS_MAX) thinOut(bucket);
      bucket.set(name, (endpoint = newEndpoint()));
    }
    const attempts: Attempts = { good: 0, failed: undefined, trait: 0 };
    endpoint.addresses.set(key, attempts);
    held++;
    return [endpoint, attempts];
  }

  /** Made-up endpoints must not keep out the one that is attacked: those with the fewest addresses go. */
  function thinOut(bucket: Bucket): void {
    const before = held;
    for (const [name, { addresses }] of smallerHalf(bucket)) {
      bucket.delete(name);
      held -= addresses.size;
    }
    dropped += before - held;
  }

  return {
    buckets,
    observe(seen) {
      const status = seen.upstreamStatus;
      if (seen.method !== 'POST' || status === 0 || status >= 500) return;
      const kind = logins(seen.path);
      if (kind === undefined) return;
      const fails = statuses.has(status) || (kind === 'form' && status === 200);
      if (!fails && status >= 400) return;
      const found = attemptsOf(seen);
      if (found === undefined) return;
      const [endpoint, attempts] = found;
      if (!fails) attempts.good++;
      else {
        attempts.failed = sight(attempts.failed, seen);
        attempts.trait = traitOf(seen);
        if (seen.user !== undefined) endpoint.users.add(seen.user);
      }
    },
    save: () => ['failedLogins/1', dropped, buckets.all().map(([at, bucket]) => [at, saveBucket(bucket)])],
    size: () => held,
    dropped: () => dropped,
  };
}

function smallerHalf(bucket: Bucket): [string, Endpoint][] {
  const sorted = [...bucket].sort(
    (a, b) => a[1].addresses.size - b[1].addresses.size || (a[0] < b[0] ? -1 : 1),
  );
  return sorted.slice(0, Math.ceil(sorted.length / 2));
}

type LoginPaths = (path: string) => 'login' | 'form' | undefined;

function loginPaths({ words, paths, formWords }: FailedLoginsConfig): LoginPaths {
  const all = new Set(words);
  const forms = new Set(formWords);
  const whole = new Set(paths);
  return (path) => {
    const text = path.toLowerCase();
    let end = text.length;
    while (end > 1 && text.charCodeAt(end - 1) === 47) end--;
    const segment = text.slice(text.lastIndexOf('/', end - 1) + 1, end);
    const dot = segment.lastIndexOf('.');
    const word = dot > 0 ? segment.slice(0, dot) : segment;
    if (forms.has(word)) return 'form';
    return all.has(word) || whole.has(text) ? 'login' : undefined;
  };
}

function judge(
  config: FailedLoginsConfig,
  name: string,
  { addresses, users }: Endpoint,
): Detection | undefined {
  const failing: Failing[] = [];
  let accepted = 0;
  let goods = 0;
  for (const [key, { good, failed, trait }] of addresses) {
    goods += good;
    if (good > 0) accepted++;
    if (failed !== undefined && good <= failed.count * config.goodShare) failing.push({ key, failed, trait });
  }
  const crowd = findCrowd(config, failing, accepted);
  if (crowd === undefined) return undefined;
  const { level, needed } = crowd;
  const suspects = crowd.members
    .map(({ key, failed }) => suspectOf({ kind: 'network', value: key }, failed))
    .sort(byCount);
  const failures = suspects.reduce((sum, { evidence }) => sum + evidence.count, 0);
  const usersTried = Math.min(users.count(), failures);
  return {
    detector: 'failedLogins',
    pattern: `failed logins on ${name}`,
    confidence: confidenceOf(crowd, { failures, goods, usersTried }),
    summary:
      `${suspects.length} addresses failed ${failures} logins on ${name}, each at least ` +
      `${level} and (nearly) none with success; from ${Math.ceil(needed)} addresses on it ` +
      `is an attack while ${accepted} others got in` +
      (usersTried > 0 ? `; about ${usersTried} user names were tried.` : '.'),
    counts: { addresses: suspects.length, failures, accepted, goodLogins: goods, usersTried },
    ...spanOf(suspects),
    suspects,
    explains: isAt(name),
  };
}

type Counts = Readonly<{ failures: number; goods: number; usersTried: number }>;

/**
 * Sure at the threshold where each fails often; surer the more there are, and with users no person has: one
 * of all, or each time another.
 */
function confidenceOf({ members, needed, few }: Crowd, { failures, goods, usersTried }: Counts): number {
  const crowded = 0.1 * Math.min(1, Math.log2(members.length / needed) / 2);
  const oddUsers = usersTried > 0 && (usersTried <= 2 || usersTried >= 0.7 * failures) ? 0.05 : 0;
  return (few ? 0.7 : 0.8) + Math.max(0, crowded) + oddUsers + (failures > goods ? 0.04 : 0);
}

/** Loading the form or trying it says nothing for who does it. */
function isAt(name: string): (request: GoodRequest) => boolean {
  return ({ site, path }) => `${site} POST ${templateOf(path)}` === name;
}
