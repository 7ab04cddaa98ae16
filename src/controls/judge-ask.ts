/**
 * What comes of asking for a ban: the rules that the book in memory and the one in Redis share. Pure;
 * lua/ban.lua says the same for Redis, and one table of cases (judge-ask.cases.ts) holds both to it.
 */
import type { Ban, BanMode } from './ban.js';
import type { BanAsk } from './ban-book-contract.js';

/** Spans in milliseconds. */
export type BanRules = Readonly<{ base: number; factor: number; max: number; memory: number }>;

/** How severe a ban is; the order of giving way. */
export const RANKS: Readonly<Record<BanMode, 0 | 1 | 2>> = { watch: 0, observe: 1, enforce: 2 };
/** Operators' bans are the last to give way, whatever their mode. */
const OPERATOR = 3;
export const CLASSES = 6;

/** What is remembered of a subject beyond the ban itself. Times in milliseconds; 0 where there was none. */
export type LedgerEntry = Readonly<{
  /** Bans by detectors, the last one at `struckMs`. */
  strikes: number;
  struckMs: number;
  /** The newest evidence that was judged, by the mode it was for: watch, observe, enforce. */
  seen: readonly [number, number, number];
  /** When an operator lifted a ban. */
  pardonMs: number;
}>;

export const NO_ENTRY: LedgerEntry = { strikes: 0, struckMs: 0, seen: [0, 0, 0], pardonMs: 0 };

export type AskState = Readonly<{
  /** In force now. */
  held: Pick<Ban, 'mode' | 'strikes'> | undefined;
  entry: LedgerEntry | undefined;
}>;

/** `entry`: what the ledger holds from then on. */
export type AskVerdict =
  | Readonly<{ result: 'made' | 'replaced'; untilMs: number; strikes: number; entry: LedgerEntry }>
  | Readonly<{ result: 'same' | 'pardoned'; entry: LedgerEntry }>;

/** The bigger, the later it gives way: 0 to 5. Only operators' bans have no strikes. */
export function classOf({ mode, strikes }: Pick<Ban, 'mode' | 'strikes'>): number {
  return RANKS[mode] + (strikes === 0 ? OPERATOR : 0);
}

/**
 * Operators always get what they ask for. A detector's ask does nothing where its evidence was judged before
 * (a topic that is read again) or as severe a ban is in force, which is never extended; and what an operator
 * has lifted, evidence from before that does not bring back.
 */
export function judgeAsk(
  ask: BanAsk,
  state: AskState,
  at: Readonly<{ nowMs: number; rules: BanRules }>,
): AskVerdict {
  const { held, entry = NO_ENTRY } = state;
  const { nowMs, rules } = at;
  const result = held === undefined ? 'made' : 'replaced';
  if (ask.durationMs !== undefined) return { result, untilMs: nowMs + ask.durationMs, strikes: 0, entry };
  const rank = RANKS[ask.mode];
  const { firstSeenMs, lastSeenMs } = ask.evidence ?? { firstSeenMs: nowMs, lastSeenMs: nowMs };
  if (lastSeenMs <= Math.max(...entry.seen.slice(rank))) return { result: 'same', entry };
  const seen = entry.seen.map((ms, of) => (of === rank ? lastSeenMs : ms)) as [number, number, number];
  const known = { ...entry, seen };
  if (held !== undefined && classOf(held) >= rank) return { result: 'same', entry: known };
  if (firstSeenMs < entry.pardonMs) return { result: 'pardoned', entry: known };
  // What was observed only and is enforced now was counted already; the shortest ban counts as one.
  const counts = held === undefined || held.mode === 'watch' ? 1 : 0;
  const before = entry.struckMs + rules.memory > nowMs ? entry.strikes : 0;
  const strikes = Math.max(1, before + (rank === 0 ? 0 : counts));
  const untilMs = nowMs + durationOf(strikes, rules);
  if (rank === 0) return { result, untilMs, strikes, entry: known };
  return { result, untilMs, strikes, entry: { ...known, strikes, struckMs: nowMs } };
}

/** Grows with each strike, up to `max`. */
export function durationOf(strikes: number, { base, factor, max }: BanRules): number {
  return Math.round(Math.min(max, base * factor ** (strikes - 1)));
}

/** Until when an entry is worth keeping. */
export function forgottenMs(at: Readonly<{ untilMs: number; nowMs: number; memory: number }>): number {
  return Math.max(at.untilMs, at.nowMs) + at.memory;
}
