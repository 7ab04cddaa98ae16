/**
 * What a part of `rareAgent` remembers: for each user agent and bucket of time, from how many addresses it
 * came; of those that are not everyday, also how they ask and who they are. Buckets that leave the window
 * become the baseline: each agent's normal share, fading over days.
 */
import { z } from 'zod';
import type { Observation } from '../../core/observation.js';
import { openHyperLogLog, type HyperLogLog } from '../../structures/hyper-log-log.js';
import { textHash } from '../../structures/text-hash.js';
import { openTimeBuckets, type TimeBuckets } from '../../structures/time-buckets.js';
import { openTopCounts, type TopCounts } from '../../structures/top-counts.js';
import type { DetectorPart, Saved } from '../detector.js';
import { mergeProfile, newProfile, noteRequest, openProfile, savedProfile, saveProfile } from './profile.js';
import type { Profile } from './profile.js';
import { joined, openSighting, savedSighting, saveSighting, sight, type Sighting } from './sighting.js';

const PRECISION = 10;
const BASELINE_MAX = 512;
/** Counters that have faded to less say nothing. */
const FORGOTTEN = 0.01;
/** An agent with this share is everyday: it is only counted, unless it grows. */
const EVERYDAY_SHARE = 0.02;
/** So many times its usual addresses in a bucket, and at least so many, and it is looked at after all. */
const GROWN = 5;
const GROWN_MIN = 50;
const LOOK_EVERY = 64;

/** `named`: requests with a session or a key. */
export type Source = { seen: Sighting; named: number };
/** `closer` undefined: everyday, or the baseline is not there yet. */
type Closer = { profile: Profile; sources: Map<string, Source> };
type Agent = { requests: number; addresses: HyperLogLog; closer: Closer | undefined };
type Bucket = Map<string, Agent>;

const newCloser = (): Closer => ({ profile: newProfile(), sources: new Map() });

export type AgentsPart = DetectorPart & {
  readonly buckets: TimeBuckets<Bucket>;
  /** By agent and by family: addresses of all buckets that left, faded. */
  readonly baseline: TopCounts;
  readonly families: TopCounts;
  /** When it saw its first request; undefined before. */
  sinceMs(): number | undefined;
};

export type AgentsOptions = Readonly<{
  bucketMs: number;
  buckets: number;
  /** From so long after the first request on the baseline says what is usual. */
  learnMs: number;
  halfLifeMs: number;
  agentsMax: number;
  sourcesMax: number;
}>;

const savedTop = z.object({
  total: z.number(),
  displaced: z.number(),
  entries: z.array(z.tuple([z.string(), z.number(), z.number()])),
});
const savedSource = z.tuple([z.string(), savedSighting, z.number()]);
const savedAgent = z.tuple([
  z.string(),
  z.number(),
  z.string(),
  z.tuple([savedProfile, z.array(savedSource)]).nullable(),
]);
const savedPart = z.tuple([
  z.literal('rareAgent/1'),
  z.number(),
  z.number().nullable(),
  savedTop,
  savedTop,
  z.array(z.tuple([z.number(), z.array(savedAgent)])),
]);

/** The agent without its numbers, so that a new version is of the same family. */
export const familyOf = (agent: string): string => agent.replace(/\d+(?:[._]\d+)*/g, '#');

/** A short name for the baseline. */
export const nameOf = (agent: string): string => textHash(agent).toString(36);

export function openAgents(options: AgentsOptions, saved?: Saved): AgentsPart {
  const { agentsMax, sourcesMax, bucketMs } = options;
  const [, lost, since, baseTop, familyTop, savedBuckets] =
    saved === undefined ? [0, 0, null, undefined, undefined, []] : savedPart.parse(saved);
  let dropped = lost;
  let firstMs = since ?? undefined;
  let sources = 0;
  const baseline = openTopCounts(BASELINE_MAX, baseTop);
  const families = openTopCounts(BASELINE_MAX, familyTop);
  const fading = 0.5 ** (bucketMs / options.halfLifeMs);

  function learn(bucket: Bucket): void {
    for (const counts of [baseline, families]) counts.fade(fading, FORGOTTEN);
    for (const [agent, { addresses, closer }] of bucket) {
      baseline.add(nameOf(agent), addresses.count());
      families.add(nameOf(familyOf(agent)), addresses.count());
      sources -= closer?.sources.size ?? 0;
    }
  }

  const buckets = openTimeBuckets<Bucket>({
    bucketMs,
    keep: options.buckets,
    make: () => new Map(),
    onLeave: learn,
    saved: savedBuckets.map(([at, bucket]) => [at, openBucket(bucket)]),
  });
  for (const [, bucket] of buckets.all()) for (const one of bucket.values()) sources += sourcesOf(one);

  /** An everyday agent with far more addresses than usual: somebody may have taught it to us. */
  function hasGrown({ addresses, requests }: Agent, { userAgent, timeMs }: Observation): boolean {
    if (requests % LOOK_EVERY !== 0 || !isLearned(timeMs)) return false;
    const elapsed = (timeMs - firstMs!) / bucketMs - options.buckets;
    const weights = Math.min(elapsed, 1 / (1 - fading));
    const usual = baseline.count(nameOf(userAgent)) / Math.max(1, weights);
    return addresses.count() >= Math.max(GROWN_MIN, GROWN * usual);
  }

  const isLearned = (timeMs: number): boolean =>
    firstMs !== undefined && timeMs - firstMs >= options.learnMs && baseline.total() > 0;

  function add(bucket: Bucket, { userAgent, timeMs }: Observation): Agent {
    if (bucket.size >= agentsMax) {
      const gone = thinOut(bucket);
      for (const one of gone) sources -= sourcesOf(one);
      dropped += gone.length;
    }
    const everyday = baseline.count(nameOf(userAgent)) >= EVERYDAY_SHARE * baseline.total();
    const agent: Agent = {
      requests: 0,
      addresses: openHyperLogLog(PRECISION),
      closer: !isLearned(timeMs) || everyday ? undefined : newCloser(),
    };
    bucket.set(userAgent, agent);
    return agent;
  }

  return {
    buckets,
    baseline,
    families,
    sinceMs: () => firstMs,
    observe(seen) {
      firstMs ??= seen.timeMs;
      const bucket = buckets.at(seen.timeMs);
      if (bucket === undefined) return;
      const agent = bucket.get(seen.userAgent) ?? add(bucket, seen);
      agent.requests++;
      agent.addresses.add(seen.key);
      if (agent.closer === undefined && hasGrown(agent, seen)) agent.closer = newCloser();
      const { closer } = agent;
      if (closer === undefined) return;
      noteRequest(closer.profile, seen);
      let source = closer.sources.get(seen.key);
      if (source === undefined) {
        if (sources >= sourcesMax) {
          dropped++;
          return;
        }
        sources++;
        closer.sources.set(seen.key, (source = { seen: sight(undefined, seen), named: 0 }));
      } else sight(source.seen, seen);
      if (seen.session !== undefined || seen.apiKey !== undefined) source.named++;
    },
    save: () => [
      'rareAgent/1',
      dropped,
      firstMs ?? null,
      baseline.save(),
      families.save(),
      buckets.all().map(([at, bucket]) => [at, [...bucket].map(saveAgent)]),
    ],
    size: () => sources + baseline.size() + buckets.all().reduce((sum, [, { size }]) => sum + size, 0),
    dropped: () => dropped,
  };
}

const sourcesOf = ({ closer }: Agent): number => closer?.sources.size ?? 0;

/** The half with the fewest requests goes; answers it. */
function thinOut(bucket: Bucket): Agent[] {
  const sorted = [...bucket].sort((a, b) => a[1].requests - b[1].requests || (a[0] < b[0] ? -1 : 1));
  const gone = sorted.slice(0, Math.ceil(sorted.length / 2));
  for (const [name] of gone) bucket.delete(name);
  return gone.map(([, agent]) => agent);
}

function saveAgent([name, { requests, addresses, closer }]: [string, Agent]): z.output<typeof savedAgent> {
  if (closer === undefined) return [name, requests, addresses.save(), null];
  const sources = [...closer.sources].map(([key, { seen, named }]): z.output<typeof savedSource> => [
    key,
    saveSighting(seen),
    named,
  ]);
  return [name, requests, addresses.save(), [saveProfile(closer.profile), sources]];
}

function openBucket(saved: readonly z.output<typeof savedAgent>[]): Bucket {
  const sourceOf = ([key, seen, named]: z.output<typeof savedSource>): [string, Source] => [
    key,
    { seen: openSighting(seen), named },
  ];
  return new Map(
    saved.map(([name, requests, addresses, closer]): [string, Agent] => [
      name,
      {
        requests,
        addresses: openHyperLogLog(PRECISION, addresses),
        closer:
          closer === null
            ? undefined
            : { profile: openProfile(closer[0]), sources: new Map(closer[1].map(sourceOf)) },
      },
    ]),
  );
}

/** One agent, or several versions of one family, over all parts and buckets. */
export type Crowd = Readonly<{
  agents: readonly string[];
  addresses: number;
  /** Its part of all addresses in the window, and what it and its family have normally. */
  share: number;
  normalShare: number;
  familyShare: number;
  profile: Profile;
  sources: ReadonlyMap<string, Source>;
}>;

type Look = Readonly<{ sinceMs: number; addressesMin: number; surge: number }>;

/**
 * Agents that are not everyday, may have `addressesMin` addresses in buckets begun after `sinceMs`, and have
 * `surge` times their normal share.
 */
export function gatherAgents(parts: readonly AgentsPart[], look: Look): Crowd[] {
  const { sinceMs, addressesMin, surge } = look;
  const young = parts.flatMap(({ buckets }) => buckets.since(sinceMs).map(([, bucket]) => bucket));
  const sums = new Map<string, number>();
  let total = 0;
  for (const bucket of young) {
    for (const [name, { addresses }] of bucket) {
      const count = addresses.count();
      total += count;
      sums.set(name, (sums.get(name) ?? 0) + count);
    }
  }
  const share = (of: (part: AgentsPart) => TopCounts, name: string): number => {
    const all = parts.reduce((sum, part) => sum + of(part).total(), 0);
    return parts.reduce((sum, part) => sum + of(part).count(name), 0) / Math.max(1, all);
  };
  const crowdOf = (agents: readonly string[], normal: number, family: number): Crowd[] => {
    const sum = agents.reduce((all, agent) => all + sums.get(agent)!, 0);
    if (sum < surge * normal * total) return [];
    const seen = agents.flatMap((agent) => young.flatMap((bucket) => bucket.get(agent) ?? []));
    if (seen.every(({ closer }) => closer === undefined)) return [];
    return [{ agents, share: sum / total, normalShare: normal, familyShare: family, ...gather(seen) }];
  };
  const familyShare = (family: string): number => share(({ families }) => families, nameOf(family));
  const big = [...sums].filter(([, sum]) => sum >= addressesMin);
  const alone = big.flatMap(([agent]) =>
    crowdOf([agent], share(({ baseline }) => baseline, nameOf(agent)), familyShare(familyOf(agent))),
  );
  const together = familiesOf(sums, addressesMin).flatMap(([family, agents]) =>
    crowdOf(agents, familyShare(family), 0),
  );
  return [...alone, ...together];
}

const FAMILY_MAX = 100;

/** Families whose versions together may have `addressesMin` addresses; those with most first. */
function familiesOf(sums: ReadonlyMap<string, number>, addressesMin: number): [string, string[]][] {
  const families = new Map<string, string[]>();
  for (const agent of sums.keys()) {
    const family = familyOf(agent);
    const known = families.get(family);
    if (known === undefined) families.set(family, [agent]);
    else known.push(agent);
  }
  const sumOf = (agents: readonly string[]): number => agents.reduce((all, one) => all + sums.get(one)!, 0);
  const most = (agents: string[]): string[] =>
    agents.sort((a, b) => sums.get(b)! - sums.get(a)! || (a < b ? -1 : 1)).slice(0, FAMILY_MAX);
  return [...families]
    .filter(([, agents]) => agents.length > 1 && sumOf(agents) >= addressesMin)
    .map(([family, agents]) => [family, most(agents)]);
}

function gather(seen: readonly Agent[]): Pick<Crowd, 'addresses' | 'profile' | 'sources'> {
  const addresses = openHyperLogLog(PRECISION);
  const profile = newProfile();
  const sources = new Map<string, Source>();
  for (const one of seen) {
    addresses.merge(one.addresses);
    if (one.closer === undefined) continue;
    mergeProfile(profile, one.closer.profile);
    for (const [key, { seen: sighting, named }] of one.closer.sources) {
      const known = sources.get(key);
      sources.set(key, { seen: joined(known?.seen, sighting), named: named + (known?.named ?? 0) });
    }
  }
  return { addresses: addresses.count(), profile, sources };
}
