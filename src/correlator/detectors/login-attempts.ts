/** What a part of `failedLogins` remembers: by endpoint, who tried and how it went; as JSON and back. */
import { z } from 'zod';
import type { Observation } from '../../core/observation.js';
import { openHyperLogLog, type HyperLogLog } from '../../structures/hyper-log-log.js';
import { textHash } from '../../structures/text-hash.js';
import type { TimeBuckets } from '../../structures/time-buckets.js';
import type { DetectorPart } from '../detector.js';
import { joined, openSighting, savedSighting, saveSighting, type Sighting } from './sighting.js';

const USERS_PRECISION = 10;

/** `trait`: with what the last failed one was made, see `traitOf`; 0 where none failed. */
export type Attempts = { good: number; failed: Sighting | undefined; trait: number };
export type Endpoint = { addresses: Map<string, Attempts>; users: HyperLogLog };
/** By site, method and path template. */
export type Bucket = Map<string, Endpoint>;

const savedEntries = z.array(z.tuple([z.string(), z.number(), savedSighting.nullable(), z.number()]));
export const savedBucket = z.array(z.tuple([z.string(), z.string(), savedEntries]));
export type LoginPart = DetectorPart & { readonly buckets: TimeBuckets<Bucket> };

export const newEndpoint = (): Endpoint => ({
  addresses: new Map(),
  users: openHyperLogLog(USERS_PRECISION),
});

export function sizeOf(bucket: Bucket): number {
  let size = 0;
  for (const { addresses } of bucket.values()) size += addresses.size;
  return size;
}

export function saveBucket(bucket: Bucket): z.output<typeof savedBucket> {
  return [...bucket].map(([name, { addresses, users }]) => [
    name,
    users.save(),
    [...addresses].map(([key, { good, failed, trait }]) => [
      key,
      good,
      failed === undefined ? null : saveSighting(failed),
      trait,
    ]),
  ]);
}

export function openBucket(saved: z.output<typeof savedBucket>): Bucket {
  const bucket: Bucket = new Map();
  for (const [name, users, entries] of saved) {
    const addresses = new Map<string, Attempts>();
    for (const [key, good, failed, trait] of entries)
      addresses.set(key, { good, failed: failed === null ? undefined : openSighting(failed), trait });
    const endpoint = { addresses, users: openHyperLogLog(USERS_PRECISION, users) };
    bucket.set(name, endpoint);
  }
  return bucket;
}

/** The software, and whether it kept a session: what one tool does alike for all its addresses. */
export function traitOf({ headerHash = '', session }: Observation): number {
  return (textHash(headerHash) % 2 ** 40) * 2 + (session === undefined ? 0 : 1);
}

export const keepsSession = (trait: number): boolean => trait % 2 === 1;

/** All parts and buckets younger than `sinceMs` as one. */
export function gather(parts: readonly LoginPart[], sinceMs: number): Bucket {
  const all: Bucket = new Map();
  for (const { buckets } of parts) {
    for (const [, bucket] of buckets.since(sinceMs)) {
      for (const [name, { addresses, users }] of bucket) {
        let into = all.get(name);
        if (into === undefined) all.set(name, (into = newEndpoint()));
        into.users.merge(users);
        for (const [key, attempts] of addresses)
          into.addresses.set(key, combined(into.addresses.get(key), attempts));
      }
    }
  }
  return all;
}

function combined(one: Attempts | undefined, other: Attempts): Attempts {
  if (one === undefined) return other;
  const { failed } = other;
  if (failed === undefined) return { ...one, good: one.good + other.good };
  const isLater = one.failed === undefined || failed.lastMs >= one.failed.lastMs;
  return {
    good: one.good + other.good,
    failed: joined(one.failed, failed),
    trait: isLater ? other.trait : one.trait,
  };
}
