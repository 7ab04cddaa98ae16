/**
 * One scraper behind many tokens: it throws its session or key away before the limit bites and goes on with
 * the next. Each looks like a busy visitor; together they walk by one plan, equally far and fast, one after
 * the other, from few networks. Pages are compared by template and order, assets are left out. Tokens that
 * hold fewer pages than `requests`, or that live longer than `life`, are not seen.
 */
import { z } from 'zod';
import { duration } from '../../core/schema.js';
import { createAddressTotals, totalOf, type AddressTotals } from '../address-totals.js';
import { detectorShape, rounded } from '../common.js';
import type { Detection, Detector, DetectorPart, Saved, Suspect } from '../detector.js';
import { createEntries, type Entries } from '../entries.js';
import { distinctPaths } from '../path-bits.js';
import { isAsset, type Route } from '../route.js';
import { recordOf } from '../saved.js';
import { clusterTokens, type Cluster, type Token } from '../token-clusters.js';
import { addRequest, createProfile, readProfile, writeProfile, type Profile } from '../token-profile.js';

export const tokenRotationSection = z
  .strictObject({
    ...detectorShape(0.8),
    window: duration('1h', { min: 60_000, max: 6 * 3_600_000 }).describe('How far back tokens are compared.'),
    requests: z
      .int()
      .min(20)
      .max(10_000)
      .default(60)
      .describe('Pages (not assets) that a token must have asked for.'),
    life: duration('30m', { min: 10_000, max: 6 * 3_600_000 }).describe(
      'Tokens that live longer are people’s.',
    ),
    tokens: z.int().min(3).max(1_000).default(6).describe('Tokens that walk alike before it speaks.'),
    networks: z
      .int()
      .min(1)
      .max(50)
      .default(3)
      .describe('Nine tenths of their requests come from at most so many ASNs (without ASN: /16 or /32).'),
    similarity: z
      .number()
      .min(0.5)
      .max(1)
      .default(0.95)
      .describe('How alike the order of their pages is: 1 is the same shares of the same sequences.'),
    spread: z
      .number()
      .min(1)
      .max(10)
      .default(1.5)
      .describe('Greatest ratio between the requests of two tokens of one scraper.'),
    handovers: z
      .number()
      .min(0)
      .max(1)
      .default(0.6)
      .describe('Share of the ended tokens that another one followed at once.'),
    keep: z.int().min(100).max(1_000_000).default(20_000).describe('Tokens remembered in each partition.'),
  })
  .prefault({});

export type TokenRotationConfig = z.output<typeof tokenRotationSection>;

type Part = DetectorPart & Readonly<{ tokens: Entries<Profile>; totals: AddressTotals }>;

/** Share of its paths that a scraper asks for once; who polls asks for the same one again and again. */
const WALKED_MIN = 0.3;
const NETWORK_SHARE = 0.9;
const GENERATIONS_MIN = 2.5;
/** Tokens with so few requests, by share of `requests`, are looked at to see whether most stop early. */
const LIGHT = 0.25;
const LIGHT_MIN = 12;
/** A scraper's tokens are all long; people stop anywhere. */
const STRAYS_MAX = 0.5;
const STEADY_TOKENS = 20;
const STEADY_MAX = 0.3;
const ALIVE_MS = 600_000;
const ONLY_SHARE = 0.8;
const REQUEST_IDS = 5;
/** Without a sign of harm it is only watched. */
const WATCHED = 0.7;
/** A network or address counts from this share of the requests on. */
const PART_SHARE = 0.1;
const NETWORKS_MIN = 2;
const ADDRESSES_MIN = 6;
const FRESH_SHARE = 0.5;
const ACTING_SHARE = 0.5;
/** Nobody reads a page faster, over a whole visit. */
const READING_MS = 1_500;
const KEY_MARK = 'key:';

export function createTokenRotation(config: TokenRotationConfig, route: Route): Detector {
  return {
    name: 'tokenRotation',
    open: (saved) => openPart(config, route, saved),
    evaluate(parts, nowMs) {
      const all = parts as readonly Part[];
      const busy = all.flatMap(({ tokens }) => busyTokens(config, tokens, nowMs));
      if (busy.length < config.tokens) return [];
      const totals = all.map((part) => part.totals);
      return clusterTokens(busy, config, nowMs)
        .filter((cluster) => isRotation(config, cluster))
        .map((cluster) => detectionOf(config, cluster, { totals, nowMs }));
    },
  };
}

function openPart(config: TokenRotationConfig, route: Route, saved: Saved | undefined): Part {
  const record = saved === undefined ? undefined : recordOf(saved);
  const totals = createAddressTotals(record?.['totals']);
  const from = record?.['tokens'];
  const tokens = createEntries<Profile>(
    {
      max: config.keep,
      idleMs: config.window,
      lastMs: ({ lastMs }) => lastMs,
      worth: ({ count }) => Math.log2(count),
    },
    from === undefined ? undefined : { from, read: readProfile },
  );
  return {
    tokens,
    totals,
    observe(observation) {
      const { timeMs, session, apiKey, path, key } = observation;
      if (isAsset(path)) return;
      totals.add(key, timeMs);
      const name = session ?? (apiKey === undefined ? undefined : `${KEY_MARK}${apiKey}`);
      // A client that shows its key beside its session is known by it.
      if (name === undefined || (session !== undefined && apiKey !== undefined)) return;
      let profile = tokens.get(name, timeMs);
      if (profile === undefined) {
        profile = createProfile(observation);
        tokens.add(name, profile, timeMs);
      }
      addRequest(profile, observation, route);
    },
    save: () => ({ tokens: tokens.save(writeProfile), totals: totals.save() }),
    size: () => tokens.size(),
    dropped: () => tokens.dropped(),
  };
}

function busyTokens(config: TokenRotationConfig, tokens: Entries<Profile>, nowMs: number): Token[] {
  const found: Token[] = [];
  for (const [name, profile] of tokens.all()) {
    const { count, firstMs, lastMs, paths } = profile;
    if (count < Math.max(LIGHT_MIN, config.requests * LIGHT) || lastMs < nowMs - config.window) continue;
    if (lastMs - firstMs > config.life || paths === undefined) continue;
    if (distinctPaths(paths) >= WALKED_MIN * Math.min(count, 1_000)) found.push({ name, profile });
  }
  return found;
}

function isRotation(config: TokenRotationConfig, cluster: Cluster): boolean {
  const requests = cluster.networks.reduce((sum, [, count]) => sum + count, 0);
  const few = cluster.networks.slice(0, config.networks).reduce((sum, [, count]) => sum + count, 0);
  return (
    cluster.tokens.length >= config.tokens &&
    few >= NETWORK_SHARE * requests &&
    cluster.generations >= GENERATIONS_MIN &&
    isRelay(config, cluster) &&
    cluster.strays <= STRAYS_MAX * cluster.tokens.length
  );
}

/** Many workers hide each other's handovers, but there are as many of them all the time. */
function isRelay(config: TokenRotationConfig, cluster: Cluster): boolean {
  const { tokens, handovers, dispersion } = cluster;
  return handovers >= config.handovers || (tokens.length >= STEADY_TOKENS && dispersion <= STEADY_MAX);
}

/**
 * Renewed keys of a partner, runs of tests and tills stay where they are; a scraper goes on elsewhere: from
 * several networks, or with another address for most tokens.
 */
function movesOn({ tokens, networks }: Cluster): boolean {
  const requests = networks.reduce((sum, [, count]) => sum + count, 0);
  if (networks.filter(([, count]) => count >= PART_SHARE * requests).length >= NETWORKS_MIN) return true;
  const addresses = new Set(tokens.flatMap(({ profile }) => profile.from.map(({ key }) => key))).size;
  return addresses >= Math.max(ADDRESSES_MIN, FRESH_SHARE * tokens.length);
}

/** Customers at shared screens: they log in, order and fill in forms, as fast as people read. */
function isTill(profiles: readonly Profile[]): boolean {
  const acting = profiles.filter(
    ({ acts, count, firstMs, lastMs }) => acts > 0 && lastMs - firstMs >= READING_MS * count,
  );
  return acting.length >= ACTING_SHARE * profiles.length;
}

type Now = Readonly<{ totals: readonly AddressTotals[]; nowMs: number }>;

function detectionOf(config: TokenRotationConfig, cluster: Cluster, now: Now): Detection {
  const { tokens, networks, generations } = cluster;
  const profiles = tokens.map(({ profile }) => profile);
  const names = new Set(tokens.map(({ name }) => name));
  const requests = profiles.reduce((sum, { count }) => sum + count, 0);
  const users = new Set(profiles.map(({ user }) => user));
  // One account whose token is renewed all the time may be one person.
  const isOneUser = users.size === 1 && !users.has(undefined);
  const isWatched = isOneUser || !movesOn(cluster) || isTill(profiles);
  const few = networks.slice(0, config.networks).map(([network]) => network);
  return {
    detector: 'tokenRotation',
    pattern: `rotated tokens on ${profiles[0]!.site} from ${[...few].sort().join(', ')}`,
    confidence: rounded(Math.min(isWatched ? WATCHED : 0.95, 0.4 + 0.05 * tokens.length)),
    summary:
      `${tokens.length} tokens (${config.tokens} are suspect) with ${requests} pages in the same order, ` +
      `${Math.round(requests / tokens.length)} each, from ${few.join(', ')}; ` +
      followedBy(config, cluster),
    counts: {
      tokens: tokens.length,
      requests,
      networks: networks.length,
      generations: Math.floor(generations),
    },
    firstSeenMs: Math.min(...profiles.map(({ firstMs }) => firstMs)),
    lastSeenMs: Math.max(...profiles.map(({ lastMs }) => lastMs)),
    suspects: [...aliveTokens(tokens, now.nowMs), ...addressesOf(profiles, now)],
    explains: ({ session, apiKey }) =>
      session !== undefined ? names.has(session) : apiKey !== undefined && names.has(`${KEY_MARK}${apiKey}`),
  };
}

function followedBy(
  config: TokenRotationConfig,
  { handovers, dispersion, tokens, generations }: Cluster,
): string {
  if (handovers >= config.handovers) {
    return `${Math.round(handovers * 100)} % of those that ended were followed by the next at once`;
  }
  const atOnce = Math.round(tokens.length / generations);
  return `${atOnce} at once all the time (variance over mean ${dispersion.toFixed(2)})`;
}

/** A token that is over comes never again. */
function aliveTokens(tokens: readonly Token[], nowMs: number): Suspect[] {
  return tokens
    .filter(({ profile }) => profile.lastMs >= nowMs - ALIVE_MS)
    .map(({ name, profile }) => ({
      subject: name.startsWith(KEY_MARK)
        ? { kind: 'apiKey', value: name.slice(KEY_MARK.length) }
        : { kind: 'session', value: name },
      evidence: {
        count: profile.count,
        firstSeenMs: profile.firstMs,
        lastSeenMs: profile.lastMs,
        requestIds: profile.requestIds,
      },
    }));
}

type Sent = { count: number; firstSeenMs: number; lastSeenMs: number; requestIds: string[] };

/** The next token comes from the same addresses; but only those that send little else are suspect. */
function addressesOf(profiles: readonly Profile[], { totals, nowMs }: Now): Suspect[] {
  const sent = new Map<string, Sent>();
  for (const { from, firstMs, lastMs, requestIds } of profiles) {
    for (const { key, count } of from) {
      const known = sent.get(key) ?? { count: 0, firstSeenMs: firstMs, lastSeenMs: lastMs, requestIds: [] };
      known.count += count;
      known.firstSeenMs = Math.min(known.firstSeenMs, firstMs);
      known.lastSeenMs = Math.max(known.lastSeenMs, lastMs);
      known.requestIds = [...known.requestIds, ...requestIds].slice(0, REQUEST_IDS);
      sent.set(key, known);
    }
  }
  return [...sent]
    .filter(([key, { count }]) => count >= ONLY_SHARE * totalOf(totals, key, nowMs))
    .map(([value, evidence]) => ({ subject: { kind: 'network', value }, evidence }));
}
