/** For tests of detectors: traffic through one of them as the engine would lead it, and what it found. */
import fc from 'fast-check';
import type { Observation } from '../core/observation.js';
import { subjectKey } from '../controls/ban.js';
import type { Detection, Detector, DetectorPart, Saved } from './detector.js';
import { hash32 } from '../structures/text-hash.js';

export type Watched = Readonly<{
  /** By pattern: the surest, and the event time at which a ban was first asked for. */
  found: ReadonlyMap<string, Readonly<{ best: Detection; banAtMs: number | undefined }>>;
  /** Everyone a ban was asked for, `kind:value`. */
  banned: ReadonlySet<string>;
  parts: readonly DetectorPart[];
}>;

export type Manner = Readonly<{
  partitions?: number;
  /** Event time between two evaluations. */
  everyMs?: number;
  banAt?: number;
  /** Parts are saved and opened anew after so many events. */
  reopenEvery?: number;
}>;

export function watch(detector: Detector, traffic: readonly Observation[], manner: Manner = {}): Watched {
  const { partitions = 1, everyMs = 10_000, banAt = 0.8, reopenEvery = Infinity } = manner;
  const parts = Array.from({ length: partitions }, () => detector.open());
  const found = new Map<string, { best: Detection; banAtMs: number | undefined }>();
  const banned = new Set<string>();
  let nextMs = (traffic[0]?.timeMs ?? 0) + everyMs;
  let [nowMs, count] = [-Infinity, 0];
  const judge = (): void => {
    for (const detection of detector.evaluate(parts, nowMs)) {
      const known = found.get(detection.pattern);
      const isSure = detection.confidence >= banAt;
      if (isSure) for (const { subject } of detection.suspects) banned.add(subjectKey(subject));
      found.set(detection.pattern, {
        best: known !== undefined && known.best.confidence >= detection.confidence ? known.best : detection,
        banAtMs: known?.banAtMs ?? (isSure ? nowMs : undefined),
      });
    }
  };
  for (const observation of traffic) {
    const at = partitionOf(observation, partitions);
    parts[at]!.observe(observation);
    if (++count % reopenEvery === 0) parts[at] = detector.open(throughJson(parts[at]!.save()));
    nowMs = Math.max(nowMs, observation.timeMs);
    if (nowMs < nextMs) continue;
    nextMs = nowMs + everyMs;
    judge();
  }
  judge();
  return { found, banned, parts };
}

/** As events are keyed on the bus. */
export const partitionOf = ({ session, apiKey, key }: Observation, partitions: number): number =>
  hash32(session ?? apiKey ?? key) % partitions;

export const throughJson = (saved: Saved): Saved => JSON.parse(JSON.stringify(saved)) as Saved;

/** Times as a test compares them: detections without their function. */
export const plain = (detections: readonly Detection[]): unknown =>
  detections.map(({ explains: _, ...rest }) => rest);

/** Saving and opening at any point changes neither what a part becomes nor what is found. */
export function survivesSaving(detector: Detector, traffic: readonly Observation[]): void {
  const nowMs = Math.max(...traffic.map(({ timeMs }) => timeMs));
  const whole = detector.open();
  for (const observation of traffic) whole.observe(observation);
  const wanted = JSON.stringify(whole.save());
  const judged = JSON.stringify(plain(detector.evaluate([whole], nowMs)));
  fc.assert(
    fc.property(fc.array(fc.nat({ max: traffic.length }), { minLength: 1, maxLength: 4 }), (cuts) => {
      let part = detector.open();
      for (const [at, observation] of traffic.entries()) {
        if (cuts.includes(at)) part = detector.open(throughJson(part.save()));
        part.observe(observation);
      }
      return (
        JSON.stringify(part.save()) === wanted &&
        JSON.stringify(plain(detector.evaluate([part], nowMs))) === judged
      );
    }),
    { numRuns: 10 },
  );
}

/** Many partitions find what one finds. */
export function sameInPartitions(detector: Detector, traffic: readonly Observation[]): readonly Detection[] {
  const nowMs = Math.max(...traffic.map(({ timeMs }) => timeMs));
  const judged = [1, 3, 8].map((partitions) => {
    const parts = Array.from({ length: partitions }, () => detector.open());
    for (const observation of traffic) parts[partitionOf(observation, partitions)]!.observe(observation);
    return detector.evaluate(parts, nowMs);
  });
  const [one, ...others] = judged;
  for (const other of others) {
    if (JSON.stringify(plain(other)) !== JSON.stringify(plain(one!))) throw new Error('partitions differ');
  }
  return one!;
}
