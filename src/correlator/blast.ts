/**
 * The blast guard: how much of the good traffic of the last quarter of an hour a set of bans would touch.
 * What is part of the pattern does not speak for its sender, nor does what the crowd's own tool asks for
 * beside the attack, nor what is less than the attack. People in a prefix always do. Where it stops being
 * right: attackers who earn good answers with what innocents use too shield themselves; that is reported.
 */
import { subjectKey } from '../controls/ban.js';
import type { Detection, Suspect } from './detector.js';
import { UNTOUCHED, type Touched } from './earlier.js';
import type { Weighed } from './good-sample.js';
import { createMatcher } from './subject-matcher.js';

/** A sample this small says nothing about shares: so many requests beyond the share are let go. */
const SLACK_SAMPLES = 3;
/** Of a detection, so many that carry most of the good traffic are left out for the others' sake. */
const SPARED_MAX = 3;
/** From so many suspects with the same software on, and that of most, it is the crowd's tool ... */
const TOOL_SUSPECTS_MIN = 10;
const TOOL_SHARE = 0.5;
/** ... where so much of what it asks for comes from suspects: innocents use something else. */
const TOOL_OWN = 0.9;
/** With fewer others than this part of the crowd, there is nobody to tell it from. */
const OTHERS_MIN = 0.5;
const MINUTE_MS = 60_000;

export type Blast = Readonly<{
  /** Whom the guard lets through; empty where the whole detection is held back. */
  passed: readonly Suspect[];
  spared: readonly Suspect[];
  /** Share of the good requests that all of this detection would touch, and that earlier bans did. */
  share: number;
  earlierShare: number;
  /** Requests in the sample, and how many of them all of the detection would touch. */
  sampled: number;
  touched: number;
  /** What each would touch; nothing for those that are missing. */
  counted: ReadonlyMap<Suspect, Touched>;
}>;

export type BlastAsk = Readonly<{
  detection: Detection;
  suspects: readonly Suspect[];
  good: readonly Weighed[];
  /** What bans of others within the window touched. */
  earlier: Touched;
  shareMax: number;
}>;

/** Pure. The suspects of one detection against the sample of good requests. */
export function weighBlast(ask: BlastAsk): Blast {
  const { suspects, good, shareMax, earlier } = ask;
  const bySuspect = countGood(ask);
  let sums = UNTOUCHED;
  for (const own of bySuspect.values()) sums = plus(sums, own);
  const total = good.reduce((sum, { weight }) => sum + weight, 0);
  const figures = {
    share: shareOf(sums.weight, total),
    earlierShare: shareOf(earlier.weight, total),
    sampled: good.length,
    touched: sums.samples,
    counted: new Map([...bySuspect].map(([at, own]) => [suspects[at]!, own])),
  };
  const allowed = shareMax * total + (good.length === 0 ? 0 : (SLACK_SAMPLES * total) / good.length);
  const spared = spareFor(sums.weight - allowed, bySuspect);
  if (spared === undefined) return { passed: [], spared: [], ...figures };
  let left = earlier.weight;
  for (const [at, { weight }] of bySuspect) if (!spared.has(at)) left += weight;
  // What is left to touch was touched before: whoever touches nothing is banned all the same.
  if (left > allowed) for (const at of bySuspect.keys()) spared.add(at);
  return {
    passed: suspects.filter((_, at) => !spared.has(at)),
    spared: suspects.filter((_, at) => spared.has(at)),
    ...figures,
  };
}

const shareOf = (part: number, total: number): number => (total === 0 ? 0 : Math.min(1, part / total));

const plus = (to: Touched | undefined, { weight, samples }: Touched): Touched => ({
  weight: (to?.weight ?? 0) + weight,
  samples: (to?.samples ?? 0) + samples,
});

type Found = Readonly<{ at: number; good: Weighed; tool: string; isExplained: boolean }>;

/** What speaks for each suspect, by its place. */
function countGood({ detection, suspects, good }: BlastAsk): Map<number, Touched> {
  const matcher = createMatcher(suspects.map(({ subject }) => subject));
  const found: Found[] = [];
  const elsewhere = new Map<string, number>();
  for (const one of good) {
    const at = matcher.find(one.request);
    const tool = `${one.request.userAgent}\n${one.request.headerHash ?? ''}`;
    if (at < 0) elsewhere.set(tool, (elsewhere.get(tool) ?? 0) + one.weight);
    else found.push({ at, good: one, tool, isExplained: detection.explains(one.request) });
  }
  const speaking = found.filter(({ isExplained }) => !isExplained);
  const tools = toolsOf(speaking, elsewhere);
  const common = commonIn(found, suspects);
  const isInTime = (atMs: number): boolean =>
    atMs + MINUTE_MS > detection.firstSeenMs && atMs <= detection.lastSeenMs;
  const own = new Map<number, Touched>();
  const people = new Map<number, Touched>();
  for (const { at, good: { request, weight, atMs }, tool } of speaking) {
    if (tools.has(tool) && isInTime(atMs)) continue;
    const isOther = common.has(at) && common.get(at) !== tool;
    const into = isOther && (request.session ?? request.apiKey) !== undefined ? people : own;
    into.set(at, plus(into.get(at), { weight, samples: 1 }));
  }
  for (const [at, { weight }] of own) if (weight < suspects[at]!.evidence.count) own.delete(at);
  for (const [at, theirs] of people) own.set(at, plus(own.get(at), theirs));
  return own;
}

/** The software, with its order of fields, that most of the crowd and nobody else uses. */
function toolsOf(found: readonly Found[], elsewhere: ReadonlyMap<string, number>): ReadonlySet<string> {
  const uses = new Map<string, { suspects: Set<number>; weight: number }>();
  const crowd = new Set<number>();
  for (const { at, tool, good } of found) {
    let use = uses.get(tool);
    if (use === undefined) uses.set(tool, (use = { suspects: new Set(), weight: 0 }));
    use.suspects.add(at);
    use.weight += good.weight;
    crowd.add(at);
  }
  const others = [...elsewhere.values()].reduce((sum, weight) => sum + weight, 0);
  const theirs = found.reduce((sum, { good }) => sum + good.weight, 0);
  if (others < OTHERS_MIN * theirs) return new Set();
  const least = Math.max(TOOL_SUSPECTS_MIN, TOOL_SHARE * crowd.size);
  const isTool = (tool: string, { suspects, weight }: { suspects: Set<number>; weight: number }): boolean =>
    suspects.size >= least && weight >= TOOL_OWN * (weight + (elsewhere.get(tool) ?? 0));
  return new Set([...uses].filter(([tool, use]) => isTool(tool, use)).map(([tool]) => tool));
}

/** By the place of each suspected prefix, what most of its good requests were made with. */
function commonIn(found: readonly Found[], suspects: readonly Suspect[]): ReadonlyMap<number, string> {
  const uses = new Map<number, Map<string, number>>();
  for (const { at, tool } of found) {
    const { kind, value } = suspects[at]!.subject;
    if (kind !== 'network' || !value.includes('/')) continue;
    const inside = uses.get(at) ?? new Map<string, number>();
    uses.set(at, inside.set(tool, (inside.get(tool) ?? 0) + 1));
  }
  const most = (inside: ReadonlyMap<string, number>): string =>
    [...inside].reduce((best, one) => (one[1] > best[1] ? one : best))[0];
  return new Map([...uses].map(([at, inside]) => [at, most(inside)]));
}

/** The few suspects without whom the rest fits; undefined where a few are not enough. */
function spareFor(excess: number, bySuspect: ReadonlyMap<number, Touched>): Set<number> | undefined {
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

/** What the ban of one of these touches. */
export function touchedBy({ counted }: Blast, suspect: Suspect): Touched {
  return counted.get(suspect) ?? UNTOUCHED;
}

export const namesOf = (suspects: readonly Suspect[]): string[] =>
  suspects.map(({ subject }) => subjectKey(subject));
