/**
 * Bans and audit entries as text: in Redis, in files, between processes. Reading believes nothing: what does
 * not have the shape of a ban is undefined.
 */
import { BAN_MODES, SUBJECT_KINDS, type Ban, type BanEvidence, type Subject } from './ban.js';
import type { AuditEntry, BanAsk } from './ban-book-contract.js';

const TEXT_MAX = 512;
const REQUEST_IDS_MAX = 5;
const WHATS: readonly AuditEntry['what'][] = ['ban', 'unban', 'held-back', 'restore'];

/** The JSON of a ban up to its times, and the rest: between them goes what only the book knows. */
export function banParts(ask: BanAsk, id: string): readonly [head: string, tail: string] {
  const { subject, mode, reason, actor, evidence } = ask;
  const head = JSON.stringify({ id, subject, mode, reason: cut(reason), actor: cut(actor) }).slice(0, -1);
  return [head, evidence === undefined ? '}' : `,"evidence":${JSON.stringify(bounded(evidence))}}`];
}

/** The JSON of an audit entry without time, ban and braces. */
export function auditHead({ what, subject, actor, reason }: Omit<AuditEntry, 'timeMs' | 'ban'>): string {
  return JSON.stringify({ what, subject, actor: cut(actor), reason: cut(reason) }).slice(1, -1);
}

export const cut = (text: string): string => (text.length > TEXT_MAX ? text.slice(0, TEXT_MAX) : text);

/** With what comes from events cut to a size that any number of bans may have. */
export function bounded(evidence: BanEvidence): BanEvidence {
  const { detector, pattern, summary, requestIds, ...numbers } = evidence;
  return {
    ...numbers,
    detector: cut(detector),
    pattern: cut(pattern),
    summary: cut(summary),
    requestIds: requestIds.slice(0, REQUEST_IDS_MAX).map(cut),
  };
}

type Fields = Readonly<Record<string, unknown>>;

const fieldsOf = (value: unknown): Fields =>
  typeof value === 'object' && value !== null ? (value as Fields) : {};
const isText = (value: unknown): value is string => typeof value === 'string' && value.length <= TEXT_MAX;
const isNumber = (value: unknown): value is number => typeof value === 'number' && Number.isFinite(value);

/** The ban in a value of unknown origin, or undefined. */
export function asBan(value: unknown): Ban | undefined {
  const { id, subject, mode, reason, actor, sinceMs, untilMs, strikes, evidence } = fieldsOf(value);
  const about = asSubject(subject);
  const knownMode = BAN_MODES.find((one) => one === mode);
  if (about === undefined || knownMode === undefined) return undefined;
  if (!isText(id) || !isText(reason) || !isText(actor)) return undefined;
  if (!isNumber(sinceMs) || !isNumber(untilMs) || !isNumber(strikes)) return undefined;
  const ban: Ban = { id, subject: about, mode: knownMode, reason, actor, sinceMs, untilMs, strikes };
  const seen = asEvidence(evidence);
  return seen === undefined ? ban : { ...ban, evidence: seen };
}

function asSubject(value: unknown): Subject | undefined {
  const { kind, value: text } = fieldsOf(value);
  const known = SUBJECT_KINDS.find((one) => one === kind);
  return known !== undefined && isText(text) && text !== '' ? { kind: known, value: text } : undefined;
}

function asEvidence(value: unknown): BanEvidence | undefined {
  const given = fieldsOf(value);
  const { detector, pattern, summary, count, firstSeenMs, lastSeenMs, requestIds, confidence } = given;
  if (!isText(detector) || !isText(pattern) || !isText(summary)) return undefined;
  if (![count, firstSeenMs, lastSeenMs, confidence].every(isNumber)) return undefined;
  if (!Array.isArray(requestIds) || !requestIds.every(isText)) return undefined;
  return given as unknown as BanEvidence;
}

/** The ban in a JSON text, or undefined. */
export function parseBan(text: unknown): Ban | undefined {
  return asBan(parsed(text));
}

/** The entry in a JSON text or a value of unknown origin, or undefined. */
export function asAuditEntry(value: unknown): AuditEntry | undefined {
  const given = fieldsOf(typeof value === 'string' ? parsed(value) : value);
  const { timeMs, what, subject, actor, reason } = given;
  const known = WHATS.find((one) => one === what);
  if (known === undefined || !isNumber(timeMs)) return undefined;
  if (!isText(subject) || !isText(actor) || !isText(reason)) return undefined;
  const ban = asBan(given['ban']);
  return { timeMs, what: known, subject, actor, reason, ...(ban === undefined ? {} : { ban }) };
}

export function parsed(text: unknown): unknown {
  if (typeof text !== 'string') return undefined;
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
