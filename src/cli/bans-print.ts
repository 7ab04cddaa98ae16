/**
 * Bans as text for a person. Reasons and evidence come from events: nothing in them may steer a terminal.
 */
import type { BanMade, BansShown } from '../admin/route.js';
import { subjectKey, type Ban, type Subject } from '../controls/ban.js';
import type { AuditEntry } from '../controls/ban-book-contract.js';
import { inWords, tableOf } from './limits-print.js';

const REASON_MAX = 80;

export function printMade({ ban, replaced, notes }: BanMade, nowMs: number): string {
  const how = ban.mode === 'observe' ? ', only observed' : '';
  const lines = [
    `banned ${nameOf(ban.subject)} until ${timeOf(ban.untilMs)} (${inWords(ban.untilMs - nowMs)})${how}`,
    ...(replaced ? ['it replaces a ban that was in force'] : []),
    ...notes.map((note) => `note: ${note}`),
  ];
  return `${lines.map(plain).join('\n')}\n`;
}

export function printLifted({ subject, untilMs, actor, reason }: Ban, nowMs: number): string {
  const left = inWords(Math.max(0, untilMs - nowMs));
  return `${plain(`lifted the ban on ${nameOf(subject)}, which had ${left} left (by ${actor}: ${reason})`)}\n`;
}

type Options = Readonly<{ nowMs: number; evidence: boolean }>;

export function printBans({ total, bans, notes }: BansShown, { nowMs, evidence }: Options): string {
  const after = notes.map((note) => plain(`note: ${note}`));
  if (total === 0) return `${['nobody is banned', ...after].join('\n')}\n`;
  if (total > bans.length) after.unshift(`the latest ${bans.length} of ${total}`);
  const head = ['subject', 'mode', 'since', 'until', 'left', 'strikes', 'by', 'reason'];
  const [first, ...rows] = tableOf([head, ...bans.map((ban) => cells(ban, nowMs))]);
  const lines = rows.flatMap((row, at) => [row, ...(evidence ? evidenceOf(bans[at]!) : [])]);
  return `${[first, ...lines, ...(after.length > 0 ? ['', ...after] : [])].join('\n')}\n`;
}

function cells({ subject, mode, sinceMs, untilMs, strikes, actor, reason }: Ban, nowMs: number): string[] {
  return [
    nameOf(subject),
    mode,
    timeOf(sinceMs),
    timeOf(untilMs),
    inWords(Math.max(0, untilMs - nowMs)),
    strikes === 0 ? '-' : String(strikes),
    actor,
    reason.length > REASON_MAX ? `${reason.slice(0, REASON_MAX - 1)}…` : reason,
  ].map(plain);
}

function evidenceOf({ evidence }: Ban): string[] {
  if (evidence === undefined) return [];
  const { pattern, summary, count, firstSeenMs, lastSeenMs, requestIds, confidence } = evidence;
  return [
    `    ${summary}`,
    `    pattern: ${pattern}; confidence ${Math.round(confidence * 100)} %`,
    `    ${count} requests of this one, from ${timeOf(firstSeenMs)} to ${timeOf(lastSeenMs)}`,
    `    such as ${requestIds.join(', ')}`,
  ].map(plain);
}

export function printAudit(entries: readonly AuditEntry[]): string {
  if (entries.length === 0) return 'nothing was done yet\n';
  const rows = entries.map(({ timeMs, what, subject, actor, reason, ban }) =>
    [timeOf(timeMs), what, subject, ban === undefined ? '' : timeOf(ban.untilMs), actor, reason].map(plain),
  );
  return `${tableOf([['time', 'what', 'subject', 'until', 'by', 'reason'], ...rows]).join('\n')}\n`;
}

const nameOf = (subject: Subject): string =>
  subject.kind === 'network' ? subject.value : subjectKey(subject);

/** UTC, to the second. */
function timeOf(ms: number): string {
  const date = new Date(ms);
  return Number.isNaN(date.getTime()) ? '?' : date.toISOString().replace(/\.\d+Z$/, 'Z');
}

const plain = (text: string): string => text.replace(/[\p{Cc}\p{Cf}]/gu, '�');
