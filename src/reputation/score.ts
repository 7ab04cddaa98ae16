/**
 * Turns what is known of an address into findings. Pure. The strongest note carries the points; they are
 * never added up.
 */
import { NO_FINDINGS } from '../core/finding.js';
import type { Finding } from '../core/finding.js';

export type Note = Readonly<{ id: string; points: number; message: string }>;

export const ALLOWED: readonly Finding[] = Object.freeze([
  { id: 'ALLOWLIST', kind: 'allow', points: 0, message: 'The address is on the allowlist.' },
] as const);

export function blocked(points: number): readonly Finding[] {
  const message = 'The address is on the blocklist.';
  return Object.freeze([{ id: 'BLOCKLIST', kind: 'deny', points, message }] as const);
}

/** Strongest first; the others keep their place in the record with 0 points. */
export function findingsOf(notes: readonly Note[]): readonly Finding[] {
  if (notes.length === 0) return NO_FINDINGS;
  const [strongest, ...others] = [...notes].sort((a, b) => b.points - a.points);
  if (strongest === undefined) return NO_FINDINGS;
  const first: Finding = { ...strongest, kind: 'note' };
  return [first, ...others.map((note) => included(note, strongest))];
}

function included({ id, points, message }: Note, strongest: Note): Finding {
  const why = `${points}, included in the ${strongest.points} of ${strongest.id}`;
  const text = `${message.replace(/\.$/, '')} (${why}).`;
  return { id, kind: 'note', points: 0, message: text };
}
