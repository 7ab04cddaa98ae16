/**
 * Bans from a file, one JSON object a line: a ban as the gate keeps it (alone or under `ban`), or the short
 * form `{"net":"203.0.113.0/24","until":"2026-12-01T00:00:00Z","reason":"…"}` for other programs. Lines of
 * the gate's file that hold something else are passed over.
 */
import { BAN_MODES, SUBJECT_KINDS, type Ban } from '../controls/ban.js';

export type BanLines = Readonly<{
  bans: readonly Ban[];
  /** Lines that are neither bans nor known to be something else, and the number of the first. */
  unreadable: number;
  first: number;
}>;

type Fields = Readonly<Record<string, unknown>>;
/** The year 2200: what a number of nanoseconds in 64 bits still holds. */
export const FOREVER_MS = 7_258_118_400_000;
const OTHER = Symbol('not a ban');

/** `nowMs`: since when bans of the short form hold. */
export function readBanLines(text: string, nowMs: number): BanLines {
  const bans: Ban[] = [];
  let unreadable = 0;
  let first = 0;
  text.split('\n').forEach((line, at) => {
    if (line.trim() === '' || line.startsWith('#')) return;
    const read = readLine(line, nowMs);
    if (read === undefined) {
      if (unreadable++ === 0) first = at + 1;
    } else if (read !== OTHER) bans.push(read);
  });
  return { bans, unreadable, first };
}

function readLine(line: string, nowMs: number): Ban | typeof OTHER | undefined {
  let value: unknown;
  try {
    value = JSON.parse(line);
  } catch {
    return undefined;
  }
  if (Array.isArray(value)) return OTHER;
  if (typeof value !== 'object' || value === null) return undefined;
  const fields = value as Fields;
  if ('net' in fields) return shortForm(fields, nowMs);
  const held =
    typeof fields['ban'] === 'object' && fields['ban'] !== null ? (fields['ban'] as Fields) : fields;
  return 'subject' in held ? longForm(held) : OTHER;
}

function shortForm({ net, until, reason }: Fields, nowMs: number): Ban | undefined {
  const untilMs =
    typeof until === 'number' ? until : typeof until === 'string' ? Date.parse(until) : FOREVER_MS;
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

function longForm(fields: Fields): Ban | undefined {
  const { id, subject, mode, reason, actor, sinceMs, untilMs, strikes } = fields;
  const { kind, value } = (typeof subject === 'object' && subject !== null ? subject : {}) as Fields;
  const knownKind = SUBJECT_KINDS.find((one) => one === kind);
  const knownMode = BAN_MODES.find((one) => one === mode);
  const texts = [id, reason, actor, value].every((one) => typeof one === 'string');
  const numbers = [sinceMs, untilMs, strikes].every((one) => typeof one === 'number' && Number.isFinite(one));
  if (knownKind === undefined || knownMode === undefined || !texts || !numbers) return undefined;
  return {
    ...(fields as unknown as Ban),
    subject: { kind: knownKind, value: String(value) },
    mode: knownMode,
  };
}
