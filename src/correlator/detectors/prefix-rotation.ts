/**
 * Rotation inside one IPv6 prefix: a host that was given a /48 takes a new /64 for every few requests, so
 * that each limit and each ban of a /64 comes too late. Told from the many customers of a carrier or provider
 * by what they do: customers keep sessions, load pages with all that belongs to them, use many browsers.
 */
import { z } from 'zod';
import { span } from '../../core/schema.js';
import { detectorShape, rounded } from '../common.js';
import type { Detection, Detector, DetectorPart, GoodRequest } from '../detector.js';
import type { Prefix, PrefixesPart } from './prefixes.js';
import { gatherPrefixes, narrowest, networkOf, openPrefixes, prefixReader } from './prefixes.js';
import { withoutHomes } from './prefixes.js';
import { harmOf, isAnonymous, traitsOf, WATCHED, type Traits } from './profile.js';
import { suspectOf } from './sighting.js';

export const prefixRotationSection = z
  .strictObject({
    ...detectorShape(0.8),
    prefix: z
      .number()
      .int()
      .min(32)
      .max(56)
      .default(48)
      .describe('Inside which prefix /64s are counted: 48 is what a customer gets, 32 a whole provider.'),
    window: span('30m', { min: 60_000, max: 86_400_000 }).describe('How far back /64s are counted.'),
    networks: z
      .number()
      .int()
      .min(10)
      .max(65_536)
      .default(100)
      .describe('From so many /64s of one prefix it may be a rotation (an estimate, some 3 % off).'),
    perNetwork: z
      .number()
      .min(1)
      .default(20)
      .describe('Most requests that one /64 makes on average; beyond, limits see it.'),
    prefixesMax: z
      .number()
      .int()
      .min(50)
      .max(100_000)
      .default(500)
      .describe('Prefixes remembered for each partition and sixth of the window; the smallest go first.'),
  })
  .prefault({});

export type PrefixRotationConfig = z.output<typeof prefixRotationSection>;

const BUCKETS = 6;
/** In so many buckets a customer's /64 would have come back. */
const CHURN_BUCKETS = 3;
const CHURN_MAX = 1.15;
/** From which share of its software's requests on nobody else uses it. */
const OWN_SHARE = 0.5;
const HOMES_SHARE = 0.1;

/** Opens parts that `evaluate` of the same detector understands; throws a ZodError on other text. */
export function createPrefixRotation(config: PrefixRotationConfig): Detector {
  const options = {
    prefix: config.prefix,
    bucketMs: Math.ceil(config.window / BUCKETS),
    buckets: BUCKETS,
    prefixesMax: config.prefixesMax,
  };
  const parts = new WeakMap<DetectorPart, PrefixesPart>();
  return {
    name: 'prefixRotation',
    open(saved) {
      const part = openPrefixes(options, saved);
      parts.set(part, part);
      return part;
    },
    evaluate(given, nowMs) {
      const mine = given.flatMap((part) => parts.get(part) ?? []);
      const sinceMs = nowMs - config.window;
      const { found, tools } = gatherPrefixes(mine, { sinceMs, networksMin: config.networks });
      return found.flatMap((prefix) => judge(config, prefix, tools) ?? []);
    },
  };
}

function judge(
  config: PrefixRotationConfig,
  prefix: Prefix,
  tools: ReadonlyMap<string, number>,
): Detection | undefined {
  // An estimate; but no network is there without a request.
  const networks = Math.min(prefix.networks.count(), prefix.seen.count);
  if (networks < config.networks || prefix.seen.count > config.perNetwork * networks) return undefined;
  const traits = traitsOf(prefix.profile);
  if (!byStrangers(prefix, networks) || !byOneHand(traits, tools)) return undefined;
  const harms = harmOf(prefix.profile, traits, networks);
  const { seen } = prefix;
  const value = narrowest(config.prefix, prefix);
  const homes = prefix.homes.size;
  return {
    detector: 'prefixRotation',
    pattern: `rotation inside ${networkOf(prefix.id, config.prefix)}`,
    confidence: rounded(Math.min(harms.length > 0 ? 0.99 : WATCHED, surenessOf(traits, prefix))),
    summary:
      `About ${networks} /64 networks of ${value} sent ${seen.count} requests, ` +
      `${(seen.count / networks).toFixed(1)} each (from ${config.networks} networks with at most ` +
      `${config.perNetwork} on it may be a rotation); no session lasted, ` +
      `${traits.oneUrl ? `nearly all asked for ${traits.url}, ` : ''}with ${traits.agent || 'no user agent'}. ` +
      (harms.length > 0 ? `It did: ${harms.join('; ')}.` : 'It does no harm.') +
      (homes > 0 ? ` Spared: ${homes} /64s where a session lasts.` : ''),
    counts: {
      networks,
      requests: seen.count,
      identified: prefix.profile.identified,
      buckets: prefix.buckets,
    },
    firstSeenMs: seen.firstMs,
    lastSeenMs: seen.lastMs,
    suspects: withoutHomes(config.prefix, prefix).map((piece) =>
      suspectOf({ kind: 'network', value: piece }, seen),
    ),
    explains: inside(config, prefix.id, traits.agent),
  };
}

/** Beside a few homes nobody keeps a session; where many live, it is a provider's prefix. */
function byStrangers({ homes, profile }: Prefix, networks: number): boolean {
  if (homes.size > HOMES_SHARE * networks) return false;
  const lived = [...homes.values()].reduce((sum, count) => sum + count, 0);
  const identified = Math.max(0, profile.identified - lived);
  return isAnonymous(profile.requests, identified, profile.identities.count() - homes.size);
}

/**
 * One tool: it calls itself a browser and has one order of header fields, or has a name that nobody else
 * uses (an app that a carrier's customers have on their phones is seen elsewhere too), or nearly all fails.
 */
function byOneHand(traits: Traits, tools: ReadonlyMap<string, number>): boolean {
  if (traits.failing) return true;
  if (traits.browser) return traits.oneHeader;
  return traits.agentCount >= OWN_SHARE * (tools.get(traits.agent) ?? Infinity);
}

function surenessOf(traits: Traits, { networks, visits, buckets }: Prefix): number {
  const gone = buckets >= CHURN_BUCKETS && visits <= CHURN_MAX * networks.count();
  const signs = (traits.oneUrl ? 0.2 : 0) + (traits.failing ? 0.15 : 0) + (gone ? 0.2 : 0);
  return 0.6 + signs + (traits.walking ? 0.1 : 0) + (traits.oneHeader ? 0.05 : 0);
}

/** What it gets with its software does not speak for it; another's session behind the same prefix does. */
function inside({ prefix }: PrefixRotationConfig, id: number, software: string): Detection['explains'] {
  const read = prefixReader(prefix);
  return ({ ip, userAgent, session }: GoodRequest) =>
    userAgent === software && session === undefined && read(ip)?.id === id;
}
