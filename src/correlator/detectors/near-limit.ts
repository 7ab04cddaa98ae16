/**
 * Addresses that stay just under a limit for minutes and walk from page to page: somebody has measured it
 * and spreads the work. One is a careful client; the heap of them is the sign. People come near with one
 * page and its pictures, and rest; a game, a wall of screens or a poller asks for the same again.
 */
import { z } from 'zod';
import type { Observation } from '../../core/observation.js';
import { textHash } from '../../structures/text-hash.js';
import { detectorShape } from '../common.js';
import type { Detection, Detector, DetectorPart, GoodRequest } from '../detector.js';
import { isAsset } from '../route.js';
import { gatherUse, openLimitUse, SLOT_MS, type LimitUsePart, type Use } from './limit-use.js';
import { byCount, spanOf, suspectOf } from './sighting.js';

export const nearLimitSection = z
  .strictObject({
    ...detectorShape(0.8),
    addresses: z
      .number()
      .int()
      .min(2)
      .max(100_000)
      .default(20)
      .describe('From so many addresses just under the same limit it is a heap.'),
    windows: z
      .number()
      .int()
      .min(2)
      .max(12)
      .default(3)
      .describe('For so many minutes (or windows of the limit, where those are longer) of the last twelve.'),
    from: z
      .number()
      .min(0.6)
      .max(1)
      .default(0.7)
      .describe('Part of the limit from which an address is just under it.'),
    heap: z
      .number()
      .min(1)
      .max(100)
      .default(2)
      .describe('How many times those that stay clearly below it, or go over it as often, the heap must be.'),
    limitMin: z
      .number()
      .int()
      .min(1)
      .default(10)
      .describe('Smaller limits are passed by: with three a minute, everybody is near.'),
    entriesMax: z
      .number()
      .int()
      .min(100)
      .max(1_000_000)
      .default(20_000)
      .describe('Addresses remembered for each partition; beyond, the oldest time is forgotten.'),
  })
  .prefault({});

export type NearLimitConfig = z.output<typeof nearLimitSection>;

/** A policy counts by these: an address, alone or with a place. */
const ADDRESS_WORDS = new Set(['ip', 'path', 'host', 'site']);
/** Part of its windows in which an address may go over: who looks for a limit finds it by that. */
const OVER_PART = 0.2;
/** So many sessions that come back: people share the address. */
const SHARED_SESSIONS = 5;
/** In so many of its windows it must be near: a page with its calls is one, and then people read. */
const MOST = 0.6;
/** From so many different paths on it walks; of many requests, this part (or the most that can be told). */
const PATHS_MIN = 10;
const PATHS_SHARE = 0.25;
const PATHS_ENOUGH = 400;
/** Highest uses that lie so close together were set by one hand. */
const EVEN = 0.06;
const SAME_SHARE = 0.8;

/** Opens parts that `evaluate` of the same detector understands; throws a ZodError on other text. */
export function createNearLimit(config: NearLimitConfig): Detector {
  const parts = new WeakMap<DetectorPart, LimitUsePart>();
  return {
    name: 'nearLimit',
    open(saved) {
      const part = openLimitUse({ entriesMax: config.entriesMax, counts: countsAt(config.limitMin) }, saved);
      parts.set(part, part);
      return part;
    },
    evaluate(given, nowMs) {
      const mine = given.flatMap((part) => parts.get(part) ?? []);
      return [...gatherUse(mine, { nowMs, slotsMin: config.windows })].flatMap(
        ([policy, uses]) => judge(config, policy, uses) ?? [],
      );
    },
  };
}

/** Whether an observation says something about an address and a limit of some size. */
function countsAt(limitMin: number): (seen: Observation) => boolean {
  const known = new Map<string, boolean>();
  return ({ near, path }) => {
    if (near === undefined || near.limit < limitMin || isAsset(path)) return false;
    let byAddress = known.get(near.by);
    if (byAddress === undefined) {
      const words = near.by.split('+');
      byAddress = words.includes('ip') && words.every((word) => ADDRESS_WORDS.has(word));
      if (known.size < 100) known.set(near.by, byAddress);
    }
    return byAddress;
  };
}

type Steady = Readonly<{ key: string; use: Use; peak: number }>;

/** Peaks of the longest time to its last window, in most of which it was near; undefined if it is short. */
function sustained({ peaks, windowMs }: Use, windows: number): readonly number[] | undefined {
  const endMs = (peaks.at(-1)?.[0] ?? 0) + windowMs;
  const from = peaks.findIndex(([startMs], at) => {
    const lengthMs = endMs - startMs;
    const near = peaks.length - at;
    return lengthMs >= windows * Math.max(SLOT_MS, windowMs) && near * windowMs >= MOST * lengthMs;
  });
  return from < 0 ? undefined : peaks.slice(from).map(([, peak]) => peak);
}

/** Not the same few pages again and again. */
const walks = ({ paths, seen }: Use): boolean =>
  paths >= Math.max(PATHS_MIN, Math.min(PATHS_SHARE * seen.count, PATHS_ENOUGH));

function judge(
  config: NearLimitConfig,
  policy: string,
  uses: ReadonlyMap<string, Use>,
): Detection | undefined {
  const found: Steady[] = [];
  let below = 0;
  let over = 0;
  for (const [key, use] of uses) {
    const peaks = sustained(use, config.windows);
    if (peaks === undefined) continue;
    const overs = peaks.filter((peak) => peak > 1).length;
    const peak = peaks.reduce((sum, one) => sum + one, 0) / peaks.length;
    if (overs > OVER_PART * peaks.length) over++;
    else if (peak < config.from) below++;
    else if (!isShared(use) && walks(use)) found.push({ key, use, peak });
  }
  const { steady, same } = crowd(found);
  const needed = Math.max(config.addresses, config.heap * (below + over));
  if (steady.length < needed) return undefined;
  const suspects = steady
    .map(({ key, use }) => suspectOf({ kind: 'network', value: key }, { ...use.seen, count: use.requests }))
    .sort(byCount);
  const peaks = steady.map(({ peak }) => peak);
  const mean = peaks.reduce((sum, peak) => sum + peak, 0) / peaks.length;
  const percent = Math.round(mean * 100);
  const keyed = steady.filter(({ use }) => use.keyed * 2 > use.seen.count).length;
  return {
    detector: 'nearLimit',
    pattern: `just under the limit ${policy}`,
    confidence: confidenceOf(steady, { needed, mean, keyed, same }),
    summary:
      `${steady.length} addresses kept to about ${percent} % of the limit ${policy} in most of its windows ` +
      `for at least ${minutesOf(config, steady)} min, hardly ever went over it, and walked from page to ` +
      `page; ${below} others stayed below ` +
      `${Math.round(config.from * 100)} % and ${over} went over. From ${Math.ceil(needed)} on it is a heap.`,
    counts: { addresses: steady.length, below, over, percent, keyed },
    ...spanOf(suspects),
    suspects,
    explains: bySameHand(steady, same),
  };
}

/** An office or a carrier's exit: several sessions come back again and again. */
const isShared = ({ sessions }: Use): boolean =>
  [...sessions.values()].filter((count) => count >= 2).length >= SHARED_SESSIONS;

/** Where nearly all use the same software, who does not is not one of them. */
function crowd(found: readonly Steady[]): { steady: readonly Steady[]; same: boolean } {
  const agents = new Map<number, number>();
  for (const { use } of found) agents.set(use.agent, (agents.get(use.agent) ?? 0) + 1);
  const common = [...agents].find(([, count]) => count >= SAME_SHARE * found.length)?.[0];
  if (common === undefined) return { steady: found, same: false };
  return { steady: found.filter(({ use }) => use.agent === common), same: true };
}

type Heap = Readonly<{ needed: number; mean: number; keyed: number; same: boolean }>;

/** A heap alone is not enough to ban: it must be even, or the same software, or very large. */
function confidenceOf(steady: readonly Steady[], { needed, mean, keyed, same }: Heap): number {
  const variance = steady.reduce((sum, { peak }) => sum + (peak - mean) ** 2, 0) / steady.length;
  const large = 0.1 * Math.min(1, Math.log2(steady.length / needed) / 2);
  // Customers with a key who heed the RateLimit fields stop at the same place.
  const partners = keyed * 2 > steady.length ? 0.25 : 0;
  return 0.7 + large + (Math.sqrt(variance) <= EVEN ? 0.1 : 0) + (same ? 0.09 : 0) - partners;
}

const minutesOf = ({ windows }: NearLimitConfig, steady: readonly Steady[]): number =>
  Math.round((windows * Math.max(SLOT_MS, steady[0]!.use.windowMs)) / 60_000);

/**
 * What the heap gets with the software that made it speaks for nobody. Where each has its own, they may be
 * people: what they get with a session, and pictures, does speak.
 */
function bySameHand(steady: readonly Steady[], same: boolean): (request: GoodRequest) => boolean {
  const agents = new Map(steady.map(({ key, use }) => [key, use.agent]));
  return ({ key, userAgent, path, session, apiKey }) =>
    agents.get(key) === textHash(userAgent) &&
    !isAsset(path) &&
    (same || (session === undefined && apiKey === undefined));
}
