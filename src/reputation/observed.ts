/**
 * Scores that sources earned by their own refusals. They fade on read, so nothing has to run for them to be
 * right; the sweep only gives memory back. Bounded: when full, the lowest sixteenth goes at once, chosen by a
 * threshold from a sample, so that a flood of new sources costs one scan for thousands of them.
 */
import { decayed } from './decay.js';

const SAMPLE = 512;
const SCORE_MAX = 100;

export type ObservedEntry = readonly [key: string, score: number, atMs: number];

export type ObservedLimits = Readonly<{ halfLife: number; evictBelow: number; max: number }>;

export type ObservedScores = {
  readonly size: number;
  /** Sources dropped because the map was full. */
  readonly dropped: number;
  /** 0 where nothing is known or the score has faded below `evictBelow`. */
  score(key: string, nowMs: number): number;
  /** Adds points to what is left of the score; at most 100. */
  raise(key: string, points: number, nowMs: number): ObservedEntry;
  /** Replaces an entry by what the holder of the truth says. */
  set(entry: ObservedEntry): void;
  /** Evicts faded scores; how many went. */
  sweep(nowMs: number): number;
  entries(): IterableIterator<ObservedEntry>;
};

type Stored = { score: number; atMs: number };

export function createObservedScores({ halfLife, evictBelow, max }: ObservedLimits): ObservedScores {
  const known = new Map<string, Stored>();
  let dropped = 0;

  const left = ({ score, atMs }: Stored, nowMs: number): number => decayed(score, nowMs - atMs, halfLife);

  const put = (key: string, score: number, atMs: number): void => {
    if (known.size >= max && !known.has(key)) dropLowest(atMs);
    known.set(key, { score, atMs });
  };
  const dropLowest = (nowMs: number): void => {
    const wanted = Math.max(1, known.size >> 4);
    const threshold = sampledQuantile(known.values(), known.size, (stored) => left(stored, nowMs));
    let gone = 0;
    for (const [key, stored] of known) {
      if (gone === wanted) break;
      if (left(stored, nowMs) > threshold) continue;
      known.delete(key);
      gone++;
    }
    dropped += gone;
  };

  return {
    get size() {
      return known.size;
    },
    get dropped() {
      return dropped;
    },
    score(key, nowMs) {
      const stored = known.get(key);
      if (stored === undefined) return 0;
      const score = left(stored, nowMs);
      return score < evictBelow ? 0 : score;
    },
    raise(key, points, nowMs) {
      const stored = known.get(key);
      const score = Math.min(SCORE_MAX, (stored === undefined ? 0 : left(stored, nowMs)) + points);
      put(key, score, nowMs);
      return [key, score, nowMs];
    },
    set([key, score, atMs]) {
      put(key, Math.min(SCORE_MAX, score), atMs);
    },
    sweep(nowMs) {
      const before = known.size;
      for (const [key, stored] of known) if (left(stored, nowMs) < evictBelow) known.delete(key);
      return before - known.size;
    },
    *entries() {
      for (const [key, { score, atMs }] of known) yield [key, score, atMs];
    },
  };
}

/** The value below which about a sixteenth of all lie, by an even sample in order of age. */
function sampledQuantile(all: Iterable<Stored>, size: number, valueOf: (stored: Stored) => number): number {
  const stride = Math.max(1, Math.floor(size / SAMPLE));
  const sample: number[] = [];
  let at = 0;
  for (const stored of all) if (at++ % stride === 0) sample.push(valueOf(stored));
  sample.sort((a, b) => a - b);
  return sample[Math.max(0, (sample.length >> 4) - 1)] ?? 0;
}
