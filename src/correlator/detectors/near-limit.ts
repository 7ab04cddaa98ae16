/**
 * Addresses that stay just under a limit: somebody has measured it and spreads the work over as many
 * addresses as it takes. One such address is a careful client; the heap of them is the sign. People's use of
 * a limit thins out towards it and now and then goes over; a heap that never does was told where to stop.
 */
import { z } from 'zod';
import type { Observation } from '../../core/observation.js';
import { textHash } from '../../structures/text-hash.js';
import { detectorShape } from '../common.js';
import type { Detection, Detector, DetectorPart, GoodRequest } from '../detector.js';
import { gatherUse, openLimitUse, type LimitUsePart, type Use } from './limit-use.js';
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
      .describe('In so many minutes (or windows of the limit, where those are longer) of the last twelve.'),
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
  return ({ near }) => {
    if (near === undefined || near.limit < limitMin) return false;
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

function judge(
  config: NearLimitConfig,
  policy: string,
  uses: ReadonlyMap<string, Use>,
): Detection | undefined {
  const found: Steady[] = [];
  let below = 0;
  let over = 0;
  for (const [key, use] of uses) {
    if (use.peaks.length < config.windows) continue;
    const overs = use.peaks.filter((peak) => peak > 1).length;
    const peak = use.peaks.reduce((sum, one) => sum + one, 0) / use.peaks.length;
    if (overs > OVER_PART * use.peaks.length) over++;
    else if (peak < config.from) below++;
    else if (!isShared(use)) found.push({ key, use, peak });
  }
  const { steady, same } = crowd(found);
  const needed = Math.max(config.addresses, config.heap * (below + over));
  if (steady.length < needed) return undefined;
  const suspects = steady
    .map(({ key, use }) => suspectOf({ kind: 'network', value: key }, use.seen))
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
      `${steady.length} addresses kept to about ${percent} % of the limit ${policy} in at least ` +
      `${config.windows} windows and did not go over it; ${below} others stayed below ` +
      `${Math.round(config.from * 100)} % and ${over} went over. From ${Math.ceil(needed)} on it is a heap.`,
    counts: { addresses: steady.length, below, over, percent, keyed },
    ...spanOf(suspects),
    suspects,
    explains: bySameHand(steady),
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

/** What the addresses of the heap get with the software that made it speaks for nobody. */
function bySameHand(steady: readonly Steady[]): (request: GoodRequest) => boolean {
  const agents = new Map(steady.map(({ key, use }) => [key, use.agent]));
  return ({ key, userAgent }) => agents.get(key) === textHash(userAgent);
}
