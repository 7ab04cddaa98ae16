/** Asks the detectors what they see in the parts of all partitions, and proposes what follows from it. */
import type { Acts } from './acts.js';
import type { Listed } from './detectors/index.js';
import type { DetectorName } from './detector.js';
import { joinSamples, type Weighed } from './good-sample.js';
import type { Partition, Trouble } from './partition.js';
import type { Proposer } from './proposals.js';

export type EvaluationStats = Readonly<{
  runs: number;
  /** Of the latest one, in milliseconds. */
  lastMs: number;
  /** The longest time in which the event loop was not let go. */
  longestStepMs: number;
  /** Detections of the latest run, by detector. */
  detections: ReadonlyMap<DetectorName, number>;
}>;

export type Evaluation = Readonly<{
  /** One step for each detector, so that the caller can pause between them. */
  steps(partitions: readonly Partition[]): Generator<undefined, void>;
  stats(): EvaluationStats;
}>;

export type EvaluationDeps = Readonly<{
  listed: readonly Listed[];
  proposer: Proposer;
  acts: Pick<Acts, 'add' | 'earlier'>;
  onTrouble: Trouble;
}>;

export function createEvaluation({ listed, proposer, acts, onTrouble }: EvaluationDeps): Evaluation {
  const detections = new Map<DetectorName, number>();
  const tally = { runs: 0, lastMs: 0, longestStepMs: 0 };

  function ask(at: number, partitions: readonly Partition[], good: () => readonly Weighed[]): void {
    const { detector, settings } = listed[at]!;
    try {
      const parts = partitions.map((partition) => partition.parts[at]!);
      const found = detector.evaluate(parts, newest(partitions));
      detections.set(detector.name, found.length);
      for (const one of found) {
        const detection = { ...one, confidence: twoDigits(one.confidence) };
        acts.add(proposer.propose({ detection, settings, good: good(), earlier: acts.earlier }));
      }
    } catch (error) {
      onTrouble(detector.name, error);
    }
  }

  return {
    stats: () => ({ ...tally, detections }),
    *steps(partitions) {
      if (partitions.length === 0) return;
      tally.runs++;
      tally.lastMs = 0;
      let sample: readonly Weighed[] | undefined;
      const good = (): readonly Weighed[] =>
        (sample ??= joinSamples(
          partitions.map((partition) => partition.good),
          newest(partitions),
        ));
      for (let at = 0; at < listed.length; at++) {
        const since = performance.now();
        ask(at, partitions, good);
        const ms = performance.now() - since;
        tally.lastMs += ms;
        tally.longestStepMs = Math.max(tally.longestStepMs, ms);
        yield undefined;
      }
    },
  };
}

/** Down, so that nobody is banned for a digit that is not shown; sums of tenths are a hair off. */
const twoDigits = (confidence: number): number => Math.floor(confidence * 100 + 1e-6) / 100;

/** Event time of the latest observation anywhere. */
export function newest(partitions: readonly Partition[]): number {
  return partitions.reduce((max, { maxTimeMs }) => Math.max(max, maxTimeMs), -Infinity);
}
