/**
 * Bans from a file, one JSON object a line: the gate's own file (a head, `{"ban":…}` among other entries, and
 * a foot that counts them), or the short form `{"net":"203.0.113.0/24","until":"2026-12-01T00:00:00Z"}` that
 * other programs write. A file that is damaged or cut off is not believed.
 */
import { asBan } from '../controls/ban-json.js';
import type { Ban } from '../controls/ban.js';

export type BanLines = Readonly<{
  bans: readonly Ban[];
  /** Why the file as a whole cannot be believed. */
  problem: string | undefined;
}>;

type Fields = Readonly<Record<string, unknown>>;

/** The year 2200: what a number of nanoseconds in 64 bits still holds. */
export const FOREVER_MS = 7_258_118_400_000;
const OTHER = Symbol('not a ban');

/** `nowMs`: since when bans of the short form hold. */
export function readBanLines(text: string, nowMs: number): BanLines {
  const lines = text.split('\n');
  const bans: Ban[] = [];
  const seen = { head: false, foot: false };
  for (const [at, line] of lines.entries()) {
    if (line.trim() === '' || line.startsWith('#')) continue;
    const value = parsed(line);
    if (isFields(value) && typeof value['kind'] === 'string' && at === 0) seen.head = true;
    else if (isFields(value) && seen.head && 'end' in value) seen.foot = value['end'] === at - 1;
    else {
      const ban = banIn(value, nowMs);
      if (ban === undefined) return { bans: [], problem: `line ${at + 1} is no ban` };
      if (ban !== OTHER) bans.push(ban);
    }
  }
  return seen.head && !seen.foot ? { bans: [], problem: 'it is cut off' } : { bans, problem: undefined };
}

const isFields = (value: unknown): value is Fields =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

function banIn(value: unknown, nowMs: number): Ban | typeof OTHER | undefined {
  // The gate's ledger of earlier bans.
  if (Array.isArray(value)) return OTHER;
  if (!isFields(value)) return undefined;
  if ('net' in value) return shortForm(value, nowMs);
  if ('audit' in value) return OTHER;
  return asBan('ban' in value ? value['ban'] : value);
}

function shortForm({ net, until, reason }: Fields, nowMs: number): Ban | undefined {
  const untilMs =
    until === undefined ? FOREVER_MS : typeof until === 'string' ? Date.parse(until) : Number(until);
  if (typeof net !== 'string' || Number.isNaN(untilMs)) return undefined;
  return {
    id: net,
    subject: { kind: 'network', value: net },
    mode: 'enforce',
    reason: typeof reason === 'string' ? reason : 'listed',
    actor: 'file',
    sinceMs: nowMs,
    untilMs: Math.min(untilMs, FOREVER_MS),
    strikes: 0,
  };
}

function parsed(line: string): unknown {
  try {
    return JSON.parse(line);
  } catch {
    return undefined;
  }
}
