/**
 * What a part of `prefixRotation` remembers: for each IPv6 prefix and bucket of time, how many /64s there
 * were, and from some on how they ask.
 */
import { z } from 'zod';
import { formatNetwork, parseIpv6 } from '../../core/address.js';
import type { Observation } from '../../core/observation.js';
import { openHyperLogLog, type HyperLogLog } from '../../structures/hyper-log-log.js';
import { textHash } from '../../structures/text-hash.js';
import { openTimeBuckets, type TimeBuckets } from '../../structures/time-buckets.js';
import type { DetectorPart, Saved } from '../detector.js';
import { mergeProfile, newProfile, noteRequest, openProfile, savedProfile, saveProfile } from './profile.js';
import type { Profile } from './profile.js';
import { joined, openSighting, savedSighting, saveSighting, sight, type Sighting } from './sighting.js';

const PRECISION = 10;
/** From so many /64s in one bucket it is worth looking how they ask. */
const PROFILED_FROM = 16;
const TOOLS_MAX = 256;
const HOMES_MAX = 32;
/** From so many requests of one session on it lasts. */
const LASTING = 5;

/** `lowest` and `highest`: bits 32 to 63 of the /64s. */
/** A /64 whose session comes back: `session` is a hash of it. */
type Home = { session: number; count: number };
type Seen = {
  seen: Sighting;
  /** By bits 32 to 63 of the /64. */
  homes: Map<number, Home>;
  networks: HyperLogLog;
  lowest: number;
  highest: number;
  profile: Profile | undefined;
};
/** `tools`: requests of everything on IPv6 or IPv4 that does not call itself a browser. */
type Bucket = { prefixes: Map<number, Seen>; tools: Map<string, number> };

export type PrefixesPart = DetectorPart & { readonly buckets: TimeBuckets<Bucket> };

export type PrefixesOptions = Readonly<{
  prefix: number;
  bucketMs: number;
  buckets: number;
  prefixesMax: number;
}>;

const savedHome = z.tuple([z.number(), z.number(), z.number()]);
type SavedHome = z.output<typeof savedHome>;
const savedSeen = z.tuple([
  z.number(),
  savedSighting,
  z.string(),
  z.number(),
  z.number(),
  savedProfile.nullable(),
  z.array(savedHome),
]);
const savedBucket = z.tuple([z.array(savedSeen), z.array(z.tuple([z.string(), z.number()]))]);
const savedPart = z.tuple([
  z.literal('prefixRotation/1'),
  z.number(),
  z.array(z.tuple([z.number(), savedBucket])),
]);

export function openPrefixes(options: PrefixesOptions, saved?: Saved): PrefixesPart {
  const { prefixesMax, prefix, bucketMs } = options;
  const [, lost, savedBuckets] = saved === undefined ? [0, 0, []] : savedPart.parse(saved);
  let dropped = lost;
  const read = prefixReader(prefix);
  const buckets = openTimeBuckets<Bucket>({
    bucketMs,
    keep: options.buckets,
    make: () => ({ prefixes: new Map(), tools: new Map() }),
    saved: savedBuckets.map(([at, bucket]) => [at, openBucket(bucket)]),
  });

  function noteTool({ tools }: Bucket, name: string): void {
    const count = tools.get(name);
    if (count !== undefined || tools.size < TOOLS_MAX) tools.set(name, (count ?? 0) + 1);
    else dropped++;
  }

  return {
    buckets,
    observe(observation) {
      const tool = !observation.userAgent.startsWith('Mozilla/');
      const isIpv6 = observation.ip.includes(':');
      if (!tool && !isIpv6) return;
      const bucket = buckets.at(observation.timeMs);
      if (bucket === undefined) return;
      if (tool) noteTool(bucket, observation.userAgent);
      const place = isIpv6 ? read(observation.ip) : undefined;
      if (place === undefined) return;
      const { id, high, low } = place;
      const known = bucket.prefixes.get(id);
      if (known !== undefined) {
        note(known, observation, low);
        known.networks.addPair(high, low);
        return;
      }
      if (bucket.prefixes.size >= prefixesMax) dropped += thinOut(bucket.prefixes);
      const networks = openHyperLogLog(PRECISION);
      networks.addPair(high, low);
      const seen = sight(undefined, observation);
      const fresh = { seen, networks, lowest: low, highest: low, profile: undefined, homes: new Map() };
      noteHome(fresh.homes, observation, low);
      bucket.prefixes.set(id, fresh);
    },
    save: () => ['prefixRotation/1', dropped, buckets.all().map(([at, bucket]) => [at, saveBucket(bucket)])],
    size: () => buckets.all().reduce((sum, [, { prefixes }]) => sum + prefixes.size, 0),
    dropped: () => dropped,
  };
}

/** Bounded: one whose session did not last gives way. */
function noteHome(homes: Map<number, Home>, { session }: Observation, low: number): void {
  if (session === undefined) return;
  const hash = textHash(session);
  const home = homes.get(low);
  if (home === undefined) {
    if (homes.size >= HOMES_MAX) {
      for (const [at, { count }] of homes) {
        if (count >= LASTING) continue;
        homes.delete(at);
        break;
      }
    }
    if (homes.size < HOMES_MAX) homes.set(low, { session: hash, count: 1 });
  } else if (home.session === hash) home.count++;
}

function note(known: Seen, observation: Observation, low: number): void {
  sight(known.seen, observation);
  noteHome(known.homes, observation, low);
  if (low < known.lowest) known.lowest = low;
  if (low > known.highest) known.highest = low;
  if (known.profile === undefined && known.networks.count() >= PROFILED_FROM) known.profile = newProfile();
  if (known.profile !== undefined) noteRequest(known.profile, observation);
}

/** Half of them, those with the fewest /64s; answers how many went. */
function thinOut(prefixes: Map<number, Seen>): number {
  const sorted = [...prefixes].sort((a, b) => a[1].networks.count() - b[1].networks.count() || a[0] - b[0]);
  const gone = sorted.slice(0, Math.ceil(sorted.length / 2));
  for (const [id] of gone) prefixes.delete(id);
  return gone.length;
}

export type Place = Readonly<{ id: number; high: number; low: number }>;

const GLOBAL_UNICAST = 0x2000;
const LOW_BITS = 2 ** 24;

/**
 * Address → its prefix as a number (`prefix` 32 to 56), and the two halves of its /64. Undefined for all but
 * global unicast (2000::/3, RFC 4291), which leaves 53 bits. The answer is overwritten by the next call.
 */
export function prefixReader(prefix: number): (ip: string) => Place | undefined {
  const groups = new Uint16Array(8);
  const place = { id: 0, high: 0, low: 0 };
  const mask = prefix === 32 ? 0 : (0xffffffff << (64 - prefix)) >>> 0;
  return (ip) => {
    if (!parseIpv6(ip, groups) || (groups[0]! & 0xe000) !== GLOBAL_UNICAST) return undefined;
    place.high = groups[0]! * 65_536 + groups[1]!;
    place.low = groups[2]! * 65_536 + groups[3]!;
    place.id = ((groups[0]! & 0x1fff) * 65_536 + groups[1]!) * LOW_BITS + ((place.low & mask) >>> 8);
    return place;
  };
}

/** The prefix of an id in CIDR notation. */
export function networkOf(id: number, length: number, low = (id % LOW_BITS) * 256): string {
  const high = Math.floor(id / LOW_BITS);
  const kept = length === 32 ? 0 : (low & (0xffffffff << (64 - length))) >>> 0;
  const groups = [GLOBAL_UNICAST + (high >>> 16), high & 0xffff, kept >>> 16, kept & 0xffff, 0, 0, 0, 0];
  return formatNetwork({ family: 6, groups, prefix: length });
}

/** The longest prefix that holds all that was seen: what its lowest and highest /64 share. */
export function narrowest(prefix: number, { id, lowest, highest }: Prefix): string {
  const length = Math.max(prefix, 32 + Math.clz32((lowest ^ highest) >>> 0));
  return networkOf(id, length, lowest);
}

/** The same in pieces that leave out the /64s where people live. */
export function withoutHomes(prefix: number, found: Prefix): string[] {
  const pieces: string[] = [];
  const homes = [...found.homes.keys()];
  const cut = (low: number, length: number): void => {
    const end = low + 2 ** (64 - length) - 1;
    if (end < found.lowest || low > found.highest) return;
    if (homes.every((home) => home < low || home > end)) pieces.push(networkOf(found.id, length, low));
    else if (length < 64) for (const half of [low, low + 2 ** (63 - length)]) cut(half, length + 1);
  };
  if (homes.length === 0) return [narrowest(prefix, found)];
  const length = Math.max(prefix, 32 + Math.clz32((found.lowest ^ found.highest) >>> 0));
  const size = 2 ** (64 - length);
  cut(Math.floor(found.lowest / size) * size, length);
  return pieces;
}

/** Of one prefix over all parts and buckets. */
export type Prefix = Readonly<{
  id: number;
  seen: Sighting;
  networks: HyperLogLog;
  lowest: number;
  highest: number;
  profile: Profile;
  /** Requests by /64 (bits 32 to 63) in which one session lasts: people who live there. */
  homes: ReadonlyMap<number, number>;
  /** Buckets in which it was seen, and the sum of its /64s over them. */
  buckets: number;
  visits: number;
}>;

export type Found = Readonly<{ found: readonly Prefix[]; tools: ReadonlyMap<string, number> }>;

type Look = Readonly<{ sinceMs: number; networksMin: number }>;

/** Those that may have `networksMin` /64s, all parts and buckets that began after `sinceMs` as one. */
export function gatherPrefixes(parts: readonly PrefixesPart[], { sinceMs, networksMin }: Look): Found {
  const sums = new Map<number, number>();
  const tools = new Map<string, number>();
  const young = parts.flatMap(({ buckets }) => buckets.since(sinceMs));
  for (const [, bucket] of young) {
    for (const [id, { networks }] of bucket.prefixes) sums.set(id, (sums.get(id) ?? 0) + networks.count());
    for (const [name, count] of bucket.tools) tools.set(name, (tools.get(name) ?? 0) + count);
  }
  const found = [...sums]
    .filter(([, sum]) => sum >= networksMin)
    .map(([id]) => gather(id, young))
    .sort((a, b) => a.id - b.id);
  return { found, tools };
}

function gather(id: number, young: readonly (readonly [number, Bucket])[]): Prefix {
  const networks = openHyperLogLog(PRECISION);
  const profile = newProfile();
  const byBucket = new Map<number, HyperLogLog>();
  const homes = new Map<number, Home>();
  let seen: Sighting | undefined;
  let lowest = Infinity;
  let highest = 0;
  for (const [at, { prefixes }] of young) {
    const one = prefixes.get(id);
    if (one === undefined) continue;
    seen = joined(seen, one.seen);
    networks.merge(one.networks);
    lowest = Math.min(lowest, one.lowest);
    highest = Math.max(highest, one.highest);
    for (const [low, { session, count }] of one.homes) {
      const home = homes.get(low);
      if (home === undefined) homes.set(low, { session, count });
      else if (home.session === session) home.count += count;
    }
    if (one.profile !== undefined) mergeProfile(profile, one.profile);
    let inBucket = byBucket.get(at);
    if (inBucket === undefined) byBucket.set(at, (inBucket = openHyperLogLog(PRECISION)));
    inBucket.merge(one.networks);
  }
  const visits = [...byBucket.values()].reduce((sum, sketch) => sum + sketch.count(), 0);
  const lasting = [...homes].filter(([, { count }]) => count >= LASTING).sort(([a], [b]) => a - b);
  return {
    id,
    seen: seen!,
    networks,
    lowest,
    highest,
    profile,
    homes: new Map(lasting.map(([low, { count }]) => [low, count])),
    buckets: byBucket.size,
    visits,
  };
}

function saveBucket({ prefixes, tools }: Bucket): z.output<typeof savedBucket> {
  const saved = [...prefixes].map(([id, one]): z.output<typeof savedSeen> => {
    const { seen, networks, lowest, highest, profile, homes } = one;
    const lived = [...homes].map(([low, home]): SavedHome => [low, home.session, home.count]);
    const profiled = profile === undefined ? null : saveProfile(profile);
    return [id, saveSighting(seen), networks.save(), lowest, highest, profiled, lived];
  });
  return [saved, [...tools]];
}

function openBucket([prefixes, tools]: z.output<typeof savedBucket>): Bucket {
  return {
    prefixes: new Map(
      prefixes.map(([id, seen, networks, lowest, highest, profile, homes]): [number, Seen] => [
        id,
        {
          seen: openSighting(seen),
          networks: openHyperLogLog(PRECISION, networks),
          lowest,
          highest,
          profile: profile === null ? undefined : openProfile(profile),
          homes: new Map(homes.map(([low, session, count]) => [low, { session, count }])),
        },
      ]),
    ),
    tools: new Map(tools),
  };
}
