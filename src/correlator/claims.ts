/**
 * Which addresses called themselves a known crawler, lately: only they are asked to prove it before a ban. A
 * part of the partition's state, since whoever bans may not have seen their requests.
 */
import type { Subject } from '../controls/ban.js';
import { networkContains, parseNetwork } from '../core/address.js';
import type { Observation } from '../core/observation.js';
import type { Crawlers } from './crawlers.js';
import type { Saved } from './detector.js';
import { createEntries } from './entries.js';
import { numberOf, textOf } from './saved.js';

export type Claim = Readonly<{ ip: string; userAgent: string }>;

export type Claims = Readonly<{
  observe(observation: Observation): void;
  /** The one whose ban would have this key: an IPv4 address or an IPv6 network. */
  of(key: string): Claim | undefined;
  all(): Iterable<Claim>;
  save(): Saved;
}>;

/** Addresses a partition remembers; the rest of a flood of impostors is banned unasked. */
const CLAIMS_MAX = 2_000;
const IDLE_MS = 2 * 3_600_000;
const ASKED_MAX = 8;
const NARROW = { 4: 32, 6: 64 };

type Entry = { ip: string; userAgent: string; lastMs: number; count: number };

export function createClaims(claimOf: Crawlers['claimOf'], saved?: Saved): Claims {
  const entries = createEntries<Entry>(
    {
      max: CLAIMS_MAX,
      idleMs: IDLE_MS,
      lastMs: ({ lastMs }) => lastMs,
      // Of many that claim it, the busy ones are those that will be suspect.
      worth: ({ count }) => Math.log2(count),
    },
    saved === undefined
      ? undefined
      : {
          from: saved,
          read: ([ip, userAgent, lastMs, count]) => ({
            ip: textOf(ip),
            userAgent: textOf(userAgent),
            lastMs: numberOf(lastMs),
            count: numberOf(count),
          }),
        },
  );
  return {
    observe({ ip, key, userAgent, timeMs }) {
      if (claimOf(userAgent) === undefined) return;
      const entry = entries.get(key, timeMs);
      if (entry === undefined) return entries.add(key, { ip, userAgent, lastMs: timeMs, count: 1 }, timeMs);
      entry.count += 1;
      if (timeMs > entry.lastMs) entry.lastMs = timeMs;
    },
    of: (key) => entries.all().get(key),
    all: () => entries.all().values(),
    save: () => entries.save(({ ip, userAgent, lastMs, count }) => [ip, userAgent, lastMs, count]),
  };
}

/** The claims of addresses in the subject's network, at most 8; none of other subjects. */
export function claimsWithin({ kind, value }: Subject, all: readonly Claims[]): readonly Claim[] {
  if (kind !== 'network') return [];
  const found = all.map((claims) => claims.of(value)).filter((claim) => claim !== undefined);
  const network = parseNetwork(value);
  // Only wide networks are few enough to look through all claims for each.
  if (found.length > 0 || network === undefined || network.prefix >= NARROW[network.family]) return found;
  for (const claims of all) {
    for (const claim of claims.all()) {
      if (found.length >= ASKED_MAX) return found;
      const address = parseNetwork(claim.ip);
      if (address !== undefined && networkContains(network, address)) found.push(claim);
    }
  }
  return found;
}

/** True where one of them is who it claims to be, or where nobody can tell now. */
export async function isWelcome(
  crawlers: Pick<Crawlers, 'verified'>,
  claims: readonly Claim[],
): Promise<boolean> {
  const verdicts = await Promise.all(claims.map(({ ip, userAgent }) => crawlers.verified(ip, userAgent)));
  return verdicts.some((verdict) => verdict !== 'no');
}
