/**
 * Bans → what the kernel's lists should hold, and how far they are from it. Pure. The kernel looks an address
 * up by its longest prefix alone, so an entry within a wider one stays only where it lasts longer: then the
 * longest match is always the right one, also after the wider one ended.
 */
import { formatNetwork, maskGroups, parseNetwork, type Network } from '../core/address.js';
import type { Ban } from '../controls/ban.js';
import { byRange, rangeOf, type Range, type RangeSet } from './ranges.js';

export type KernelEntry = Readonly<{
  /** Canonical CIDR; a single IPv4 address has no prefix length. */
  net: string;
  /** Wall clock, milliseconds. */
  untilMs: number;
  /** 1 to 10; of a full list the least severe give way. */
  severity: number;
}>;

/**
 * Why a ban stays with stage 1: `everything` is 0.0.0.0/0 or ::/0, `wide` a prefix shorter than
 * `reputation.widest`, `narrow` an IPv6 one longer than /64, which the kernel does not keep apart;
 * `allowlist`, `own`, `management`, `trusted`, `neighbour`, `gateway` (a router of this machine), `resolver` and
 * `special` name what it would have touched;
 * `full` is beyond `xdp.entries`.
 */
export const REFUSED_REASONS = [
  ...(['unreadable', 'everything', 'wide', 'narrow', 'full'] as const),
  ...(['allowlist', 'own', 'management', 'trusted', 'neighbour'] as const),
  ...(['gateway', 'resolver', 'special'] as const),
] as const;
export type RefusedReason = (typeof REFUSED_REASONS)[number];
export type Refused = Readonly<{ net: string; reason: RefusedReason }>;

export type SyncRules = Readonly<{
  nowMs: number;
  widest: Readonly<{ ipv4: number; ipv6: number }>;
  /** How wide bans of IPv6 addresses are: `reputation.ipv6Prefix`. */
  ipv6Prefix: number;
  /** Never blocked in the kernel; its words are reasons. */
  protected: RangeSet;
  /** Most entries in all. */
  entriesMax: number;
}>;

export type Wanted = Readonly<{
  /** By `net`. */
  entries: ReadonlyMap<string, KernelEntry>;
  refused: readonly Refused[];
  /** Bans within a wider one that lasts at least as long. */
  covered: number;
}>;

const IPV6_LONGEST = 64;
const SEVERITY_OPERATOR = 10;

type Ranged = KernelEntry & Range;
type Mutable = { -readonly [Key in keyof Ranged]: Ranged[Key] };

/**
 * Only bans of networks in mode `enforce` that still hold; the others are stage 1's alone and are not counted
 * as refused.
 */
export function wantedOf(bans: readonly Ban[], rules: SyncRules): Wanted {
  const refused: Refused[] = [];
  const ranged: Ranged[] = [];
  for (const ban of bans) {
    if (ban.subject.kind !== 'network' || ban.mode !== 'enforce' || ban.untilMs <= rules.nowMs) continue;
    const admitted = admit(ban, rules);
    if ('reason' in admitted) refused.push(admitted);
    else ranged.push(admitted);
  }
  const kept = withoutCovered(ranged);
  const entries = new Map<string, KernelEntry>();
  for (const { net, untilMs, severity } of mostSevere(kept, rules.entriesMax, refused)) {
    entries.set(net, { net, untilMs, severity });
  }
  return { entries, refused, covered: ranged.length - kept.length };
}

/** 10 for what an operator asked for, else how often detectors banned it, 1 to 9. */
export function severityOf({ actor, strikes }: Pick<Ban, 'actor' | 'strikes'>): number {
  return actor.startsWith('detector:') ? Math.min(9, Math.max(1, Math.trunc(strikes))) : SEVERITY_OPERATOR;
}

function admit(ban: Ban, rules: SyncRules): Ranged | Refused {
  const text = ban.subject.value;
  const network = parseNetwork(text);
  if (network === undefined) return { net: text.slice(0, 64), reason: 'unreadable' };
  const stored = widened(network, rules.ipv6Prefix);
  const net = formatNetwork(stored);
  const widest = stored.family === 4 ? rules.widest.ipv4 : rules.widest.ipv6;
  if (stored.prefix === 0) return { net, reason: 'everything' };
  if (stored.prefix < widest) return { net, reason: 'wide' };
  if (stored.family === 6 && stored.prefix > IPV6_LONGEST) return { net, reason: 'narrow' };
  const range = rangeOf(stored);
  const touched = rules.protected.touching(range);
  if (touched !== undefined) return { net, reason: reasonOf(touched) };
  return { net, untilMs: ban.untilMs, severity: severityOf(ban), ...range };
}

function reasonOf(word: string): RefusedReason {
  return REFUSED_REASONS.find((reason) => reason === word) ?? 'special';
}

/** An IPv6 ban covers the prefix that the gate bans by, where that is one the kernel keeps. */
function widened(network: Network, ipv6Prefix: number): Network {
  if (network.family === 4 || network.prefix <= IPV6_LONGEST || ipv6Prefix > IPV6_LONGEST) return network;
  const groups = [...network.groups];
  maskGroups(groups, IPV6_LONGEST);
  return { family: 6, groups, prefix: IPV6_LONGEST };
}

/** Sorted by range, those that a wider one outlasts left out. */
function withoutCovered(ranged: Ranged[]): Ranged[] {
  ranged.sort((a, b) => byRange(a, b) || b.untilMs - a.untilMs || b.severity - a.severity);
  const kept: Mutable[] = [];
  // The chain of wider ones around the present place: each lasts longer than the one before.
  const around: Mutable[] = [];
  for (const one of ranged) {
    while (around.length > 0 && around[around.length - 1]!.last < one.first) around.pop();
    const closest = around.at(-1);
    if (closest !== undefined && closest.untilMs >= one.untilMs) {
      // It stands for the covered one too, also where room is short.
      closest.severity = Math.max(closest.severity, one.severity);
      continue;
    }
    const own = { ...one };
    around.push(own);
    kept.push(own);
  }
  return kept;
}

function mostSevere(kept: Ranged[], max: number, refused: Refused[]): readonly Ranged[] {
  if (kept.length <= max) return kept;
  const ranked = [...kept].sort((a, b) => b.severity - a.severity || b.untilMs - a.untilMs);
  for (const { net } of ranked.slice(max)) refused.push({ net, reason: 'full' });
  return ranked.slice(0, max);
}

export type Difference = Readonly<{ added: number; removed: number; changed: number }>;

/** How many entries a sync adds, takes away and changes (time or severity). */
export function differenceOf(
  applied: ReadonlyMap<string, KernelEntry>,
  wanted: ReadonlyMap<string, KernelEntry>,
): Difference {
  let added = 0;
  let changed = 0;
  for (const [net, entry] of wanted) {
    const known = applied.get(net);
    if (known === undefined) added++;
    else if (known.untilMs !== entry.untilMs || known.severity !== entry.severity) changed++;
  }
  return { added, changed, removed: applied.size - (wanted.size - added) };
}
