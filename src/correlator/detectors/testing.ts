/** How tests play traffic through a detector: over one part or several, also saved and opened on the way. */
import type { Observation } from '../../core/observation.js';
import { textHash } from '../../structures/text-hash.js';
import type { Detection, Detector, DetectorPart, Saved } from '../detector.js';

export type Played = Readonly<{ detections: readonly Detection[]; parts: readonly DetectorPart[] }>;

export type Way = Readonly<{
  partitions?: number;
  /** After so many observations each part is saved as JSON and opened anew. */
  reopenEvery?: number;
  nowMs?: number;
  /** A part that has learned what is usual; for one partition. */
  from?: Saved;
}>;

/** As the bus splits the stream. */
export const partitionOf = ({ session, apiKey, key }: Observation, partitions: number): number =>
  textHash(session ?? apiKey ?? key) % partitions;

export function play(detector: Detector, traffic: readonly Observation[], way: Way = {}): Played {
  const { partitions = 1, reopenEvery = Infinity } = way;
  const parts = Array.from({ length: partitions }, () => detector.open(way.from));
  traffic.forEach((seen, at) => {
    parts[partitionOf(seen, partitions)]!.observe(seen);
    if ((at + 1) % reopenEvery !== 0) return;
    parts.forEach((part, index) => (parts[index] = reopened(detector, part)));
  });
  const nowMs = way.nowMs ?? traffic.at(-1)?.timeMs ?? 0;
  return { detections: detector.evaluate(parts, nowMs), parts };
}

export const reopened = (detector: Detector, part: DetectorPart): DetectorPart =>
  detector.open(JSON.parse(JSON.stringify(part.save())) as Saved);

/** `from`: a part that has learned what is usual. */
export type Watch = Readonly<{ banAt: number; everyMs?: number; from?: Saved }>;

/**
 * Judges every `everyMs` of event time, as the engine does; answers all values ever suspected with enough
 * confidence, and the first detection of each pattern.
 */
export function follow(
  detector: Detector,
  traffic: readonly Observation[],
  watch: Watch,
): { banned: ReadonlySet<string>; first: ReadonlyMap<string, Detection>; atMs: ReadonlyMap<string, number> } {
  const { banAt, everyMs = 10_000 } = watch;
  const part = detector.open(watch.from);
  const banned = new Set<string>();
  const first = new Map<string, Detection>();
  const atMs = new Map<string, number>();
  let nextMs = (traffic[0]?.timeMs ?? 0) + everyMs;
  const look = (nowMs: number): void => {
    for (const detection of detector.evaluate([part], nowMs)) {
      if (detection.confidence < banAt) continue;
      if (!first.has(detection.pattern)) first.set(detection.pattern, detection);
      for (const { subject } of detection.suspects) {
        banned.add(subject.value);
        if (!atMs.has(subject.value)) atMs.set(subject.value, nowMs);
      }
    }
  };
  for (const seen of traffic) {
    while (seen.timeMs >= nextMs) {
      look(nextMs);
      nextMs += everyMs;
    }
    // Refused from then on, so that nothing more of it reaches a detector.
    if (!banned.has(seen.key)) part.observe(seen);
  }
  look(nextMs);
  return { banned, first, atMs };
}
