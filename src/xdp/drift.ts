/**
 * What the kernel's lists hold against what they were given, entry by entry. Pure. Also finds a wall clock
 * that was set: the kernel counts on its own clock, so that every end has moved then.
 */
import { formatNetwork, maskGroups, parseNetwork } from '../core/address.js';
import type { ListedEntry } from './answers.js';
import type { KernelEntry } from './sync.js';

export type Given = Readonly<{
  bans: ReadonlyMap<string, KernelEntry>;
  allowed: readonly string[];
  /** So many may be missing: the loader did not take them. */
  notTaken: number;
}>;

export type Drift = Readonly<{
  entries: number;
  /** The first few, each with what is wrong. */
  named: readonly string[];
}>;

/** By how much an end may be off: the time that a sync takes, clocks that are slewed. */
export const END_OFF_MS = 2_000;
/** The kernel keeps ends further ahead as none. */
const FAR_MS = 99 * 365 * 86_400_000;
const NAMED_MAX = 5;
const SOURCE_PREFIX = 64;

/** Those that have ended, or end within `END_OFF_MS`, may be there or not. */
export function driftIn(given: Given, listed: readonly ListedEntry[], nowMs: number): Drift {
  const missing: string[] = [];
  const other: string[] = [];
  const [bans, allowed] = [new Map<string, ListedEntry>(), new Set<string>()];
  for (const entry of listed) {
    if (entry.list === 'ban') bans.set(keyOf(entry.net), entry);
    if (entry.list === 'allow') allowed.add(keyOf(entry.net));
  }
  for (const [net, entry] of given.bans) {
    const found = bans.get(net);
    bans.delete(net);
    if (found === undefined) {
      if (entry.untilMs > nowMs + END_OFF_MS) missing.push(`${net} is missing`);
    } else if (!sameEnd(found, entry, nowMs)) other.push(`${net} ends at another time`);
    else if (found.severity !== entry.severity) other.push(`${net} has another severity`);
  }
  for (const net of bans.keys()) other.push(`${net} is not ours`);
  for (const net of new Set(given.allowed.map(keyOf)))
    if (!allowed.delete(net)) missing.push(`${net} is no longer allowed`);
  for (const net of allowed) other.push(`${net} is allowed and not ours`);
  const all = missing.length > given.notTaken ? [...missing, ...other] : other;
  const entries = Math.max(0, missing.length - given.notTaken) + other.length;
  return { entries, named: all.slice(0, NAMED_MAX) };
}

function sameEnd(found: ListedEntry, { untilMs }: KernelEntry, nowMs: number): boolean {
  if (found.untilMs === Infinity) return untilMs > nowMs + FAR_MS;
  return Math.abs(found.untilMs - untilMs) <= END_OFF_MS;
}

/** As the agent writes networks; the kernel keeps IPv6 by /64. */
function keyOf(net: string): string {
  const network = parseNetwork(net);
  if (network === undefined) return net;
  if (network.family === 4 || network.prefix <= SOURCE_PREFIX) return formatNetwork(network);
  const groups = [...network.groups];
  maskGroups(groups, SOURCE_PREFIX);
  return formatNetwork({ family: 6, groups, prefix: SOURCE_PREFIX });
}
