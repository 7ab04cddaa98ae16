/** What a detector remembers of one source: how often, from when to when, and a few requests to look up. */
import { z } from 'zod';
import type { Subject } from '../../controls/ban.js';
import type { Observation } from '../../core/observation.js';
import type { Suspect } from '../detector.js';

export type Sighting = { count: number; firstMs: number; lastMs: number; ids: string[] };

/** Of one bucket; those of several are put together. */
const IDS_MAX = 2;
const EVIDENCE_IDS_MAX = 5;

/** `undefined`: the first. */
export function sight(known: Sighting | undefined, { timeMs, requestId }: Observation): Sighting {
  if (known === undefined) return { count: 1, firstMs: timeMs, lastMs: timeMs, ids: [requestId] };
  known.count++;
  if (timeMs < known.firstMs) known.firstMs = timeMs;
  if (timeMs > known.lastMs) known.lastMs = timeMs;
  if (known.ids.length < IDS_MAX) known.ids.push(requestId);
  return known;
}

/** A new one; neither is changed. */
export function joined(one: Sighting | undefined, other: Sighting): Sighting {
  if (one === undefined) return { ...other };
  return {
    count: one.count + other.count,
    firstMs: Math.min(one.firstMs, other.firstMs),
    lastMs: Math.max(one.lastMs, other.lastMs),
    ids: one.ids.length >= EVIDENCE_IDS_MAX ? one.ids : [...one.ids, ...other.ids].slice(0, EVIDENCE_IDS_MAX),
  };
}

export function suspectOf(subject: Subject, { count, firstMs, lastMs, ids }: Sighting): Suspect {
  return {
    subject,
    evidence: { count, firstSeenMs: firstMs, lastSeenMs: lastMs, requestIds: ids.slice(0, EVIDENCE_IDS_MAX) },
  };
}

/** The worst first; the same order however the stream was split. */
export function byCount(a: Suspect, b: Suspect): number {
  return b.evidence.count - a.evidence.count || (a.subject.value < b.subject.value ? -1 : 1);
}

/** From when to when a list of suspects, not empty, was seen. */
export function spanOf(suspects: readonly Suspect[]): { firstSeenMs: number; lastSeenMs: number } {
  let firstSeenMs = Infinity;
  let lastSeenMs = -Infinity;
  for (const { evidence } of suspects) {
    firstSeenMs = Math.min(firstSeenMs, evidence.firstSeenMs);
    lastSeenMs = Math.max(lastSeenMs, evidence.lastSeenMs);
  }
  return { firstSeenMs, lastSeenMs };
}

/** As saved: a flat list, short in JSON. */
export const savedSighting = z.tuple([z.number(), z.number(), z.number(), z.array(z.string())]);
export type SavedSighting = z.output<typeof savedSighting>;

export const saveSighting = ({ count, firstMs, lastMs, ids }: Sighting): SavedSighting => [
  count,
  firstMs,
  lastMs,
  [...ids],
];

export const openSighting = ([count, firstMs, lastMs, ids]: SavedSighting): Sighting => ({
  count,
  firstMs,
  lastMs,
  ids: [...ids],
});
