/** The part of `failedLogins`: takes logins in, keeps a window of them, and gives up what is worth least. */
import { z } from 'zod';
import type { Observation } from '../../core/observation.js';
import { openTimeBuckets } from '../../structures/time-buckets.js';
import type { Saved } from '../detector.js';
import type { Attempts, Bucket, Endpoint, LoginPart } from './login-attempts.js';
import {
  newAttempts,
  newEndpoint,
  openBucket,
  saveBucket,
  savedBucket,
  sizeOf,
  traitOf,
} from './login-attempts.js';
import type { FailedLoginsConfig } from './login-config.js';
import { openLoginPast } from './login-past.js';
import type { Logins } from './login-paths.js';
import { sight } from './sighting.js';
import { userBit, withUsers } from './user-bits.js';

export const BUCKETS = 12;
const ENDPOINTS_MAX = 100;
/** When all places are taken so many are cleared at once, who failed least and longest ago first. */
const CLEARED = 0.25;
const LEAST = [1, 3, Infinity];

const savedPart = z.tuple([
  z.literal('failedLogins/2'),
  z.number(),
  z.array(z.tuple([z.number(), savedBucket])),
  z.custom<Saved>((value) => typeof value === 'object' && value !== null),
]);

export type Ways = Readonly<{ bucketMs: number; logins: Logins; saved: unknown }>;

/** Throws a ZodError or TypeError on what is no such part. */
export function openPart({ entriesMax }: FailedLoginsConfig, { bucketMs, logins, saved }: Ways): LoginPart {
  const [, lost, savedBuckets, savedPast] =
    saved === undefined ? [0, 0, [], undefined] : savedPart.parse(saved);
  let held = 0;
  let dropped = lost;
  const past = openLoginPast(entriesMax, savedPast);
  const buckets = openTimeBuckets<Bucket>({
    bucketMs,
    keep: BUCKETS,
    make: () => new Map(),
    onLeave: (bucket) => (held -= sizeOf(bucket)),
    saved: savedBuckets.map(([startMs, bucket]) => [startMs, openBucket(bucket)]),
  });
  for (const [, bucket] of buckets.all()) held += sizeOf(bucket);

  /** A flood of newcomers must not keep out, nor push out, those that fail again and again. */
  function makeRoom(): void {
    if (held < entriesMax) return;
    let toClear = Math.ceil(entriesMax * CLEARED);
    for (const least of LEAST) {
      for (const [, bucket] of buckets.all()) {
        const cleared = clear(bucket, least, toClear);
        toClear -= cleared;
        held -= cleared;
        dropped += cleared;
        if (toClear === 0) return;
      }
    }
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

  function attemptsOf(name: string, { key, timeMs }: Observation): [Endpoint, Attempts] | undefined {
    const bucket = buckets.at(timeMs);
    if (bucket === undefined) return undefined;
    const known = bucket.get(name)?.addresses.get(key);
    if (known === undefined) makeRoom();
    let endpoint = bucket.get(name);
    if (endpoint === undefined) {
      if (bucket.size >= ENDPOINTS_MAX) thinOut(bucket);
      bucket.set(name, (endpoint = newEndpoint()));
    }
    if (known !== undefined) return [endpoint, known];
    const attempts = newAttempts();
    endpoint.addresses.set(key, attempts);
    held++;
    return [endpoint, attempts];
  }

  return {
    buckets,
    past,
    observe(seen) {
      const status = seen.upstreamStatus;
      if (status === 0 || status >= 500) return;
      const login = logins(seen);
      if (login === undefined) return;
      const fails = login.failed.has(status);
      if (fails ? login.named && seen.user === undefined : status >= 400) return;
      const found = attemptsOf(`${seen.site} ${seen.method} ${login.template}`, seen);
      if (found === undefined) return;
      count(found, seen, fails);
      if (!fails) past.observe(seen);
    },
    save: () => [
      'failedLogins/2',
      dropped,
      buckets.all().map(([at, bucket]) => [at, saveBucket(bucket)]),
      past.save(),
    ],
    size: () => held + past.size(),
    dropped: () => dropped + past.dropped(),
  };
}

function count([endpoint, attempts]: [Endpoint, Attempts], seen: Observation, fails: boolean): void {
  const bit = seen.user === undefined ? 0 : userBit(seen.user);
  endpoint.tries++;
  if (fails) {
    attempts.failed = sight(attempts.failed, seen);
    attempts.trait = traitOf(seen);
    attempts.failedUsers = withUsers(attempts.failedUsers, bit);
    if (seen.user !== undefined) endpoint.users.add(seen.user);
  } else {
    attempts.good++;
    attempts.goodUsers = withUsers(attempts.goodUsers, bit);
    endpoint.goods++;
    if (seen.timeMs > endpoint.lastGoodMs) endpoint.lastGoodMs = seen.timeMs;
  }
}

/** Takes out up to `max` that failed at most `least` times; answers how many. */
function clear(bucket: Bucket, least: number, max: number): number {
  let cleared = 0;
  for (const { addresses } of bucket.values()) {
    for (const [key, { failed }] of addresses) {
      if (cleared === max) return cleared;
      if ((failed?.count ?? 0) > least) continue;
      addresses.delete(key);
      cleared++;
    }
  }
  return cleared;
}

function smallerHalf(bucket: Bucket): [string, Endpoint][] {
  const sorted = [...bucket].sort(
    (a, b) => a[1].addresses.size - b[1].addresses.size || (a[0] < b[0] ? -1 : 1),
  );
  return sorted.slice(0, Math.ceil(sorted.length / 2));
}
