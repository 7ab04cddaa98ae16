/**
 * The blast guard: how much of the good traffic of the last quarter of an hour a set of bans would touch.
 * Requests that are part of the pattern do not speak for their sender, nor do others where they are fewer
 * than those. Where it stops being right: an attacker who earns more good answers than its attack has
 * requests shields itself; that is reported for a person to decide.
 */
import { subjectKey, type Subject, type SubjectKind } from '../controls/ban.js';
import { networkContains, parseNetwork, type Network } from '../core/address.js';
import { createCidrSet } from '../structures/cidr-set.js';
import type { Detection, GoodRequest, Suspect } from './detector.js';
import type { Weighed } from './good-sample.js';

/** A sample this small says nothing about shares: so many requests beyond the share are let go. */
const SLACK_SAMPLES = 3;
/** Of a detection, so many that carry most of the good traffic are left out for the others' sake. */
const SPARED_MAX = 3;

export type Blast = Readonly<{
  /** Whom the guard lets through; empty where the whole detection is held back. */
  passed: readonly Suspect[];
  spared: readonly Suspect[];
  /** Share of the good requests that all of the detection, and what was banned lately, would touch. */
  share: number;
  /** Requests in the sample, and how many of them would be touched. */
  sampled: number;
  touched: number;
}>;

export type BlastAsk = Readonly<{
  detection: Detection;
  suspects: readonly Suspect[];
  good: readonly Weighed[];
  /** Who was banned within the window. */
  recent: Matcher;
  shareMax: number;
}>;

/** Pure. The suspects of one detection against the sample of good requests. */
export function weighBlast(ask: BlastAsk): Blast {
  const { detection, suspects, good, shareMax } = ask;
  const matcher = createMatcher(suspects.map(({ subject }) => subject));
  const bySuspect = new Map<number, Good>();
  const sums: Good = { weight: 0, samples: 0 };
  let total = 0;
  for (const { request, weight } of good) {
    total += weight;
    const at = matcher.find(request);
    if (at < 0) {
      if (ask.recent.find(request) >= 0) add(sums, { weight, samples: 1 });
    } else if (!detection.explains(request)) {
      const own = bySuspect.get(at) ?? { weight: 0, samples: 0 };
      bySuspect.set(at, add(own, { weight, samples: 1 }));
    }
  }
  for (const [at, own] of bySuspect) {
    if (own.weight < suspects[at]!.evidence.count) bySuspect.delete(at);
    else add(sums, own);
  }
  const { weight: touched, samples } = sums;
  const figures = { share: total === 0 ? 0 : touched / total, sampled: good.length, touched: samples };
  const allowed = shareMax * total + (good.length === 0 ? 0 : (SLACK_SAMPLES * total) / good.length);
  const spared = spareFor(touched - allowed, bySuspect);
  if (spared === undefined) return { passed: [], spared: [], ...figures };
  return {
    passed: suspects.filter((_, at) => !spared.has(at)),
    spared: suspects.filter((_, at) => spared.has(at)),
    ...figures,
  };
}

type Good = { weight: number; samples: number };

function add(to: Good, { weight, samples }: Good): Good {
  to.weight += weight;
  to.samples += samples;
  return to;
}

/** The few suspects without whom the rest fits; undefined where a few are not enough. */
function spareFor(excess: number, bySuspect: ReadonlyMap<number, Good>): Set<number> | undefined {
  const spared = new Set<number>();
  if (excess <= 0) return spared;
  let left = excess;
  const heaviest = [...bySuspect].sort(([, a], [, b]) => b.weight - a.weight).slice(0, SPARED_MAX);
  for (const [at, { weight }] of heaviest) {
    spared.add(at);
    left -= weight;
    if (left <= 0) return spared;
  }
  return undefined;
}

/** Finds the subject that a request belongs to. */
export type Matcher = Readonly<{
  /** Place of the first subject that fits, or -1. */
  find(request: GoodRequest): number;
}>;

export function createMatcher(subjects: readonly Subject[]): Matcher {
  const exact = new Map<string, number>();
  const networks: Readonly<{ at: number; network: Network }>[] = [];
  const wide = createCidrSet();
  for (const [at, subject] of subjects.entries()) {
    const key = subjectKey(subject);
    if (!exact.has(key)) exact.set(key, at);
    const isNetwork = subject.kind === 'network' && subject.value.includes('/');
    const network = isNetwork ? parseNetwork(subject.value) : undefined;
    if (network !== undefined && wide.add(network)) networks.push({ at, network });
  }
  const placeOf = (kind: SubjectKind, value: string | undefined): number | undefined =>
    value === undefined ? undefined : exact.get(subjectKey({ kind, value }));
  return {
    find({ ip, key, session, apiKey, ja4, headerHash }) {
      const known =
        placeOf('network', ip) ??
        placeOf('network', key) ??
        placeOf('session', session) ??
        placeOf('apiKey', apiKey) ??
        placeOf('ja4', ja4) ??
        placeOf('headers', headerHash);
      if (known !== undefined || !wide.has(ip)) return known ?? -1;
      const address = parseNetwork(ip);
      if (address === undefined) return -1;
      return networks.find(({ network }) => networkContains(network, address))?.at ?? -1;
    },
  };
}
