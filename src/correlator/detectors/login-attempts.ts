/** What a part of `failedLogins` remembers: by endpoint, who tried and how it went; as JSON and back. */
import { z } from 'zod';
import type { Observation } from '../../core/observation.js';
import { openHyperLogLog, type HyperLogLog } from '../../structures/hyper-log-log.js';
import { textHash } from '../../structures/text-hash.js';
import type { TimeBuckets } from '../../structures/time-buckets.js';
import type { DetectorPart } from '../detector.js';
import type { LoginPast } from './login-past.js';
import { joined, openSighting, savedSighting, saveSighting, type Sighting } from './sighting.js';
import { withUsers } from './user-bits.js';

const USERS_PRECISION = 10;

export type Attempts = {
  good: number;
  failed: Sighting | undefined;
  /** With what the last failed one was made, see `traitOf`; 0 where none failed. */
  trait: number;
  /** Bits of the users that got in and of those that did not, see `userBit`. */
  goodUsers: number;
  failedUsers: number;
};
export type Endpoint = {
  addresses: Map<string, Attempts>;
  users: HyperLogLog;
  /** Of all addresses, those given up included; the last good one 0 where there was none. */
  goods: number;
  tries: number;
  lastGoodMs: number;
};
/** By site, method and path template. */
export type Bucket = Map<string, Endpoint>;

const savedEntry = z.tuple([
  z.string(),
  z.number(),
  savedSighting.nullable(),
  z.number(),
  z.number(),
  z.number(),
]);
const savedEndpoint = z.tuple([
  z.string(),
  z.string(),
  z.number(),
  z.number(),
  z.number(),
  z.array(savedEntry),
]);
export const savedBucket = z.array(savedEndpoint);
export type LoginPart = DetectorPart & { readonly buckets: TimeBuckets<Bucket>; readonly past: LoginPast };

export const newEndpoint = (users = ''): Endpoint => ({
  addresses: new Map(),
  users: openHyperLogLog(USERS_PRECISION, users),
  goods: 0,
  tries: 0,
  lastGoodMs: 0,
});

export const newAttempts = (): Attempts => ({
  good: 0,
  failed: undefined,
  trait: 0,
  goodUsers: 0,
  failedUsers: 0,
});

export function sizeOf(bucket: Bucket): number {
  let size = 0;
  for (const { addresses } of bucket.values()) size += addresses.size;
  return size;
}

export function saveBucket(bucket: Bucket): z.output<typeof savedBucket> {
  return [...bucket].map(([name, { addresses, users, goods, tries, lastGoodMs }]) => [
    name,
    users.save(),
    goods,
    tries,
    lastGoodMs,
    [...addresses].map(([key, { good, failed, trait, goodUsers, failedUsers }]) => [
      key,
      good,
      failed === undefined ? null : saveSighting(failed),
      trait,
      goodUsers,
      failedUsers,
    ]),
  ]);
}

export function openBucket(saved: z.output<typeof savedBucket>): Bucket {
  const bucket: Bucket = new Map();
  for (const [name, users, goods, tries, lastGoodMs, entries] of saved) {
    const endpoint: Endpoint = { ...newEndpoint(users), goods, tries, lastGoodMs };
    for (const [key, good, failed, trait, goodUsers, failedUsers] of entries) {
      const sighting = failed === null ? undefined : openSighting(failed);
      endpoint.addresses.set(key, { good, failed: sighting, trait, goodUsers, failedUsers });
    }
    bucket.set(name, endpoint);
  }
  return bucket;
}

/** The software, and whether it kept a session: what one tool does alike for all its addresses. */
export function traitOf({ headerHash = '', session }: Observation): number {
  return softwareOf(headerHash) * 2 + (session === undefined ? 0 : 1);
}

export const softwareOf = (headerHash = ''): number => textHash(headerHash) % 2 ** 40;
export const softwareIn = (trait: number): number => Math.floor(trait / 2);
export const keepsSession = (trait: number): boolean => trait % 2 === 1;

/** All parts and buckets younger than `sinceMs` as one. */
export function gather(parts: readonly LoginPart[], sinceMs: number): Bucket {
  const all: Bucket = new Map();
  for (const { buckets } of parts) {
    for (const [, bucket] of buckets.since(sinceMs)) {
      for (const [name, endpoint] of bucket) {
        let into = all.get(name);
        if (into === undefined) all.set(name, (into = newEndpoint()));
        take(into, endpoint);
      }
    }
  }
  return all;
}

/** Adds `other`, which stays as it is. */
export function take(into: Endpoint, other: Endpoint): void {
  into.users.merge(other.users);
  into.goods += other.goods;
  into.tries += other.tries;
  into.lastGoodMs = Math.max(into.lastGoodMs, other.lastGoodMs);
  for (const [key, attempts] of other.addresses)
    into.addresses.set(key, combined(into.addresses.get(key), attempts));
}

function combined(one: Attempts | undefined, other: Attempts): Attempts {
  if (one === undefined) return other;
  const { failed } = other;
  const isLater = failed !== undefined && (one.failed === undefined || failed.lastMs >= one.failed.lastMs);
  return {
    good: one.good + other.good,
    failed: failed === undefined ? one.failed : joined(one.failed, failed),
    trait: isLater ? other.trait : one.trait,
    goodUsers: withUsers(one.goodUsers, other.goodUsers),
    failedUsers: withUsers(one.failedUsers, other.failedUsers),
  };
}
