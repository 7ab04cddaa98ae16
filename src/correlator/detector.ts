/**
 * The shape of a detector. It sees the observations of one partition at a time and keeps a bounded, windowed
 * part for each, a pure function of that partition's events in order (event time only, no clock, no dice): so
 * whoever takes a partition over goes on from a saved part and comes to the same end. Parts of all partitions
 * are judged together.
 */
import type { BanEvidence, Subject } from '../controls/ban.js';
import type { Observation } from '../core/observation.js';

export const DETECTOR_NAMES = [
  'nearLimit',
  'rareAgent',
  'travel',
  'tokenRotation',
  'failedLogins',
  'regularTiming',
  'prefixRotation',
] as const;
export type DetectorName = (typeof DETECTOR_NAMES)[number];

/** Survives JSON. */
export type Saved =
  null | string | number | boolean | readonly Saved[] | Readonly<{ [key: string]: Saved }>;

export type DetectorPart = Readonly<{
  /** Never one of a banned or allowlisted source. Times may run back by `correlator.lateness`. */
  observe(observation: Observation): void;
  save(): Saved;
  /** Entries kept. */
  size(): number;
  /** Entries that found no room or were given up for others. */
  dropped(): number;
}>;

export type Suspect = Readonly<{
  subject: Subject;
  evidence: Pick<BanEvidence, 'count' | 'firstSeenMs' | 'lastSeenMs' | 'requestIds'>;
}>;

/** A request that was served well, as the blast guard remembers it. */
export type GoodRequest = Pick<
  Observation,
  | 'site'
  | 'ip'
  | 'key'
  | 'asn'
  | 'userAgent'
  | 'session'
  | 'apiKey'
  | 'headerHash'
  | 'ja4'
  | 'method'
  | 'path'
>;

export type Detection = Readonly<{
  detector: DetectorName;
  /** In words, the same for the same attack as it goes on: `failed logins on shop POST /login`. */
  pattern: string;
  /** 0 to 1: how sure. */
  confidence: number;
  /** One sentence a person can read, with the counts and the thresholds they passed. */
  summary: string;
  counts: Readonly<Record<string, number>>;
  firstSeenMs: number;
  lastSeenMs: number;
  /** Whom to ban, at most some ten thousand. */
  suspects: readonly Suspect[];
  /** True for a well-served request that is itself part of the pattern: it does not speak for its sender. */
  explains(request: GoodRequest): boolean;
}>;

export type Detector = {
  readonly name: DetectorName;
  /** A part as saved, or an empty one. Throws on text that is no such part. */
  open(saved?: Saved): DetectorPart;
  /** Pure. `nowMs`: event time of the latest observation anywhere. Parts are those that `open` made. */
  evaluate(parts: readonly DetectorPart[], nowMs: number): readonly Detection[];
};
