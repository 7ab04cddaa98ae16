/**
 * All that is kept of one partition: where it stands, what was seen lately, the sample of good requests and
 * one part for each detector. A pure function of the partition's events in order, so that whoever takes it
 * over from its saved form comes to the same end.
 */
import type { Observation } from '../core/observation.js';
import type { Detector, DetectorName, DetectorPart, Saved } from './detector.js';
import { createClaims, type Claims } from './claims.js';
import { createGoodSample, type GoodSample } from './good-sample.js';
import { createRepeats, type Repeats } from './repeats.js';

/** What became of an event: judged by the detectors, or why not. */
export const FATES = ['judged', 'redelivered', 'repeated', 'late', 'banned', 'allowlisted'] as const;
export type Fate = (typeof FATES)[number];

export type Trouble = (detector: DetectorName, error: unknown) => void;

export type PartitionDeps = Readonly<{
  /** `settings`: what the detector was made from; a part saved under others starts anew. */
  detectors: readonly Readonly<{ detector: Detector; settings: string }>[];
  latenessMs: number;
  /** The crawler that a user agent claims to be. */
  claimOf: (userAgent: string) => string | undefined;
  onTrouble: Trouble;
}>;

export const STATE_VERSION = 1;

export type Partition = {
  /** Grows when the topic was made anew: offsets that began again are no redelivery. */
  readonly epoch: number;
  readonly nextOffset: number;
  /** Event time of the newest; -Infinity before the first. */
  readonly maxTimeMs: number;
  readonly good: GoodSample;
  readonly claims: Claims;
  /** In the order of the detectors. */
  readonly parts: readonly DetectorPart[];
  take(offset: number, observation: Observation): Fate;
  /** A message without a usable observation. */
  skip(offset: number): void;
  save(): Saved;
};

/** `saved`: as `save` gave it; what cannot be read of it starts anew, and is told. */
export function createPartition(deps: PartitionDeps, saved?: Saved): Partition {
  return new Kept(deps, asRecord(saved));
}

class Kept implements Partition {
  epoch: number;
  nextOffset: number;
  maxTimeMs: number;
  good: GoodSample;
  claims: Claims;
  parts: DetectorPart[];
  private repeats: Repeats;

  constructor(
    private readonly deps: PartitionDeps,
    saved: Readonly<Record<string, Saved>>,
  ) {
    const known = saved['v'] === STATE_VERSION ? saved : {};
    this.epoch = numberOr(known['epoch'], 0);
    this.nextOffset = numberOr(known['nextOffset'], 0);
    this.maxTimeMs = numberOr(known['maxTimeMs'], -Infinity);
    this.repeats = orFresh(() => createRepeats(textOf(known['repeats'])), createRepeats);
    this.good = orFresh(() => createGoodSample(known['good']), createGoodSample);
    this.claims = orFresh(
      () => createClaims(deps.claimOf, known['claims']),
      () => createClaims(deps.claimOf),
    );
    this.parts = deps.detectors.map((one) =>
      this.openPart(one, asRecord(asRecord(known['parts'])[nameOf(one)])),
    );
  }

  private openPart(
    { detector, settings }: PartitionDeps['detectors'][number],
    saved: Readonly<Record<string, Saved>>,
  ): DetectorPart {
    if (saved['settings'] !== settings || saved['part'] === undefined) return detector.open();
    try {
      return detector.open(saved['part']);
    } catch (error) {
      this.deps.onTrouble(detector.name, error);
      return detector.open();
    }
  }

  take(offset: number, observation: Observation): Fate {
    const { timeMs } = observation;
    if (offset < this.nextOffset) {
      // Whatever lies behind us is not younger than the newest: this is another topic under the same name.
      if (timeMs <= this.maxTimeMs) return 'redelivered';
      this.epoch++;
    }
    this.nextOffset = offset + 1;
    if (!this.repeats.isNew(observation.requestId)) return 'repeated';
    if (timeMs > this.maxTimeMs) this.maxTimeMs = timeMs;
    else if (timeMs < this.maxTimeMs - this.deps.latenessMs) return 'late';
    if (observation.refusal === 'ban') return 'banned';
    if (observation.allowlisted) return 'allowlisted';
    this.good.observe(observation);
    this.claims.observe(observation);
    for (let at = 0; at < this.parts.length; at++) this.feed(at, observation);
    return 'judged';
  }

  private feed(at: number, observation: Observation): void {
    try {
      this.parts[at]!.observe(observation);
    } catch (error) {
      this.deps.onTrouble(this.deps.detectors[at]!.detector.name, error);
    }
  }

  skip(offset: number): void {
    if (offset >= this.nextOffset) this.nextOffset = offset + 1;
  }

  save(): Saved {
    const parts: Record<string, Saved> = {};
    for (const [at, { detector, settings }] of this.deps.detectors.entries()) {
      try {
        parts[detector.name] = { settings, part: this.parts[at]!.save() };
      } catch (error) {
        this.deps.onTrouble(detector.name, error);
      }
    }
    return {
      v: STATE_VERSION,
      epoch: this.epoch,
      nextOffset: this.nextOffset,
      maxTimeMs: Number.isFinite(this.maxTimeMs) ? this.maxTimeMs : null,
      repeats: this.repeats.save(),
      good: this.good.save(),
      claims: this.claims.save(),
      parts,
    };
  }
}

const nameOf = ({ detector }: PartitionDeps['detectors'][number]): DetectorName => detector.name;

function asRecord(saved: Saved | undefined): Readonly<Record<string, Saved>> {
  return typeof saved === 'object' && saved !== null && !Array.isArray(saved)
    ? (saved as Readonly<Record<string, Saved>>)
    : {};
}

const numberOr = (saved: Saved | undefined, otherwise: number): number =>
  typeof saved === 'number' ? saved : otherwise;
const textOf = (saved: Saved | undefined): string | undefined =>
  typeof saved === 'string' ? saved : undefined;

function orFresh<T>(open: () => T, fresh: () => T): T {
  try {
    return open();
  } catch {
    return fresh();
  }
}
