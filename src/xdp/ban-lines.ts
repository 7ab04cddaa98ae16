/**
 * Bans from a file, one JSON object a line: the gate's own file (a head, `{"ban":…}` among other entries), or
 * the short form `{"net":"203.0.113.0/24","until":"2026-12-01T00:00:00Z"}` that other programs write. Either
 * ends with `{"end":N}`, N counting the entries: what is empty, cut off or damaged is not believed.
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
/** Before 1973 in milliseconds, up to the year 5138 in seconds. */
const SECONDS_MAX = 100_000_000_000;
const ISO_DATE = /^\d{4}-\d\d-\d\d(?:T.*)?$/;

type Progress = { hasHead: boolean; entries: number; end: unknown; bans: Ban[] };

/** `nowMs`: since when bans of the short form hold. */
export function readBanLines(text: string, nowMs: number): BanLines {
  const so: Progress = { hasHead: false, entries: 0, end: undefined, bans: [] };
  for (const [at, line] of text.split('\n').entries()) {
    if (line.trim() === '' || line.startsWith('#')) continue;
    const problem = takeLine(line, so, nowMs);
    if (problem !== undefined) return { bans: [], problem: `line ${at + 1} ${problem}` };
  }
  const problem = wholeness(so);
  return problem === undefined ? { bans: so.bans, problem } : { bans: [], problem };
}

function wholeness({ hasHead, entries, end }: Progress): string | undefined {
  if (end === entries) return undefined;
  if (end !== undefined) return `its foot counts ${JSON.stringify(end)} entries, there are ${entries}`;
  if (!hasHead && entries === 0) return 'it is empty; a list of no bans is the line {"end":0}';
  return 'it is cut off: the last line {"end":N}, which counts the entries, is missing';
}

/** Why the line spoils the file. */
function takeLine(line: string, so: Progress, nowMs: number): string | undefined {
  if (so.end !== undefined) return 'comes after the foot';
  const value = parsed(line);
  if (isFields(value) && typeof value['kind'] === 'string' && so.entries === 0 && !so.hasHead) {
    so.hasHead = true;
  } else if (isFields(value) && 'end' in value) so.end = value['end'];
  else {
    const ban = banIn(value, nowMs);
    if (typeof ban === 'string') return ban;
    if (!so.hasHead && isOfBook(value)) return "is of a gate's own file, whose head is missing";
    so.entries++;
    if (ban !== OTHER) so.bans.push(ban);
  }
  return undefined;
}

const isOfBook = (value: unknown): boolean =>
  Array.isArray(value) || (isFields(value) && ('ban' in value || 'audit' in value));

const isFields = (value: unknown): value is Fields =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

const NO_BAN = 'is no ban';

/** A string says what is wrong. */
function banIn(value: unknown, nowMs: number): Ban | typeof OTHER | string {
  // The gate's ledger of earlier bans.
  if (Array.isArray(value)) return OTHER;
  if (!isFields(value)) return NO_BAN;
  if ('net' in value) return shortForm(value, nowMs);
  if ('audit' in value) return OTHER;
  return asBan('ban' in value ? value['ban'] : value) ?? NO_BAN;
}

function shortForm({ net, until, reason }: Fields, nowMs: number): Ban | string {
  if (typeof net !== 'string') return NO_BAN;
  const untilMs = endOf(until);
  if (typeof untilMs === 'string') return untilMs;
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

const NO_END =
  'has an until that is neither a date such as 2026-12-01T00:00:00Z nor milliseconds; leave it out for no end';

/** Milliseconds; a string says what is wrong with it. */
function endOf(until: unknown): number | string {
  if (until === undefined) return FOREVER_MS;
  if (typeof until === 'number' && until < SECONDS_MAX)
    return `has an until of ${until}, which looks like seconds; it counts milliseconds since 1970`;
  if (typeof until === 'number') return until;
  const ms = typeof until === 'string' && ISO_DATE.test(until) ? Date.parse(until) : NaN;
  return Number.isNaN(ms) ? NO_END : ms;
}

function parsed(line: string): unknown {
  try {
    return JSON.parse(line);
  } catch {
    return undefined;
  }
}
