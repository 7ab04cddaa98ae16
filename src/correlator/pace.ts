/**
 * How evenly somebody goes on: the gaps between steps, in bins that grow by 12 %, and the share of them that
 * fall into the fullest five bins in a row (a band of ±28 %). People's gaps spread over decades; those of a
 * loop with a pause do not. A pause that varies by a third is still found, one that varies by half is not,
 * and one drawn from an exponential cannot be told from people by this.
 */
import type { Saved } from './detector.js';
import { listOf, numberOf } from './saved.js';

const SHORTEST_MS = 200;
const LONGEST_MS = 120_000;
const GROWTH = Math.log(1.12);
const BINS = Math.ceil(Math.log(LONGEST_MS / SHORTEST_MS) / GROWTH);
const BAND = 5;
/** From here on all counts are halved, so that what somebody did long ago fades. */
const GAPS_MAX = 240;

/** `bins[BINS]` are the longer ones. `lastMs`: the latest request, `stepMs`: the one that began the step. */
export type Pace = { lastMs: number; stepMs: number; gaps: number; bins: Uint16Array | undefined };

export const createPace = (timeMs: number): Pace => ({
  lastMs: timeMs,
  stepMs: timeMs,
  gaps: 0,
  bins: undefined,
});

/** A request less than `quietMs` after the one before belongs to the same step: a page and its calls. */
export function addStep(pace: Pace, timeMs: number, quietMs: number): void {
  if (timeMs < pace.lastMs) return;
  const begins = timeMs - pace.lastMs >= quietMs;
  pace.lastMs = timeMs;
  if (!begins) return;
  const gapMs = timeMs - pace.stepMs;
  pace.stepMs = timeMs;
  pace.bins ??= new Uint16Array(BINS + 1);
  const bin = gapMs >= LONGEST_MS ? BINS : Math.max(0, Math.floor(Math.log(gapMs / SHORTEST_MS) / GROWTH));
  pace.bins[Math.min(bin, BINS)]! += 1;
  pace.gaps += 1;
  if (pace.gaps >= GAPS_MAX) halve(pace, pace.bins);
}

function halve(pace: Pace, bins: Uint16Array): void {
  pace.gaps = 0;
  for (let bin = 0; bin <= BINS; bin++) {
    bins[bin]! >>= 1;
    pace.gaps += bins[bin]!;
  }
}

export type Evenness = Readonly<{ gaps: number; share: number; fromMs: number; toMs: number }>;

/** The band that holds most gaps. */
export function evennessOf({ gaps, bins }: Pace): Evenness {
  let [best, at] = [0, 0];
  for (let first = 0; bins !== undefined && first + BAND <= BINS; first++) {
    let sum = 0;
    for (let bin = first; bin < first + BAND; bin++) sum += bins[bin]!;
    if (sum > best) [best, at] = [sum, first];
  }
  const edgeMs = (bin: number): number => Math.round(SHORTEST_MS * Math.exp(bin * GROWTH));
  return { gaps, share: gaps === 0 ? 0 : best / gaps, fromMs: edgeMs(at), toMs: edgeMs(at + BAND) };
}

export function writePace({ lastMs, stepMs, gaps, bins }: Pace): Saved {
  const filled: number[] = [];
  for (let bin = 0; bins !== undefined && bin <= BINS; bin++) {
    if (bins[bin]! > 0) filled.push(bin, bins[bin]!);
  }
  return [lastMs, stepMs, gaps, filled];
}

export function readPace(saved: Saved | undefined): Pace {
  const [lastMs, stepMs, gaps, filled] = listOf(saved);
  const pairs = listOf(filled).map(numberOf);
  const pace: Pace = { ...createPace(numberOf(lastMs)), stepMs: numberOf(stepMs), gaps: numberOf(gaps) };
  for (let at = 0; at < pairs.length; at += 2) {
    pace.bins ??= new Uint16Array(BINS + 1);
    pace.bins[Math.min(pairs[at] ?? 0, BINS)] = pairs[at + 1] ?? 0;
  }
  return pace;
}
