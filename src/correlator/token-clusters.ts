/**
 * Tokens that walk alike, follow one another and come from few networks. Pure: from profiles to clusters, the
 * same whatever the order in which the profiles arrive. People who do the same thing differ in how much of it
 * they do and how fast; so alike means order, amount and pace.
 */
import { GRAMS, type Profile } from './token-profile.js';

export type Token = Readonly<{ name: string; profile: Profile }>;

export type ClusterRules = Readonly<{
  /** Cosine of the two orders from which they are the same walk. */
  similarity: number;
  /** Greatest ratio between the amounts of two tokens that are over. */
  spread: number;
}>;

export type Cluster = Readonly<{
  tokens: readonly Token[];
  /** Networks by requests, the busiest first. */
  networks: readonly (readonly [network: string, requests: number])[];
  /** How many times over the time of a mean token their whole time is. */
  generations: number;
  /** Share of the tokens that ended whose end was another one's beginning. */
  handovers: number;
}>;

type Walk = Readonly<{ token: Token; direction: Float64Array; pace: number; ended: boolean; network: string }>;

const GROUP_MAX = 256;
const WALKS_MAX = 4_096;
const ROUNDS_MAX = 8;
const PACE_SPREAD = 2;
const ENDED_MS = 30_000;
const HANDOVER_MS = { before: 10_000, afterMin: 45_000, afterMax: 120_000, ofLife: 0.15 };

export function clusterTokens(tokens: readonly Token[], rules: ClusterRules, nowMs: number): Cluster[] {
  const groups = new Map<string, Walk[]>();
  const latest = [...tokens].sort(byLatest).slice(0, WALKS_MAX);
  for (const token of latest) {
    const walk = walkOf(token, nowMs);
    const name = `${token.profile.site} ${walk.network}`;
    const group = groups.get(name);
    if (group === undefined) groups.set(name, [walk]);
    else if (group.length < GROUP_MAX) group.push(walk);
  }
  const found = [...groups.values()].flatMap((walks) => densest(walks, rules));
  return joined(found, rules).map((walks) => summed(walks));
}

const byLatest = (a: Token, b: Token): number =>
  b.profile.lastMs - a.profile.lastMs || (a.name < b.name ? -1 : 1);

function walkOf(token: Token, nowMs: number): Walk {
  const { grams, from, count, firstMs, lastMs } = token.profile;
  const direction = Float64Array.from(grams ?? new Uint16Array(GRAMS));
  const length = Math.sqrt(direction.reduce((sum, one) => sum + one * one, 0));
  if (length > 0) for (let at = 0; at < GRAMS; at++) direction[at]! /= length;
  const [busiest] = [...from].sort((a, b) => b.count - a.count || (a.key < b.key ? -1 : 1));
  return {
    token,
    direction,
    pace: count / Math.max(lastMs - firstMs, 1_000),
    ended: lastMs < nowMs - ENDED_MS,
    network: busiest?.network ?? '',
  };
}

function isAlike(one: Walk, other: Walk, { similarity, spread }: ClusterRules): boolean {
  const [a, b] = [one.token.profile.count, other.token.profile.count];
  // One that is still under way may become as long as the other.
  if (a * spread < b && one.ended) return false;
  if (b * spread < a && other.ended) return false;
  if (one.pace > other.pace * PACE_SPREAD || other.pace > one.pace * PACE_SPREAD) return false;
  let cosine = 0;
  for (let at = 0; at < GRAMS; at++) cosine += one.direction[at]! * other.direction[at]!;
  return cosine >= similarity;
}

/** The walk with most like it and those, then again among the rest. Its first one stands for a cluster. */
function densest(walks: readonly Walk[], rules: ClusterRules): Walk[][] {
  const found: Walk[][] = [];
  let rest = [...walks];
  for (let round = 0; round < ROUNDS_MAX && rest.length > 1; round++) {
    let best: Walk[] = [];
    for (const leader of rest) {
      const alike = rest.filter((walk) => walk !== leader && isAlike(leader, walk, rules));
      if (alike.length + 1 > best.length) best = [leader, ...alike];
    }
    if (best.length < 2) break;
    found.push(best);
    rest = rest.filter((walk) => !best.includes(walk));
  }
  return found;
}

/** The same walk from several networks is one cluster. */
function joined(clusters: readonly Walk[][], rules: ClusterRules): Walk[][] {
  const found: Walk[][] = [];
  const sizeFirst = [...clusters].sort(
    (a, b) => b.length - a.length || (a[0]!.token.name < b[0]!.token.name ? -1 : 1),
  );
  for (const cluster of sizeFirst) {
    const [leader] = cluster;
    const same = found.find(
      ([first]) =>
        first!.token.profile.site === leader!.token.profile.site && isAlike(first!, leader!, rules),
    );
    if (same === undefined) found.push([...cluster]);
    else same.push(...cluster);
  }
  return found;
}

function summed(walks: readonly Walk[]): Cluster {
  const tokens = walks.map(({ token }) => token);
  const networks = new Map<string, number>();
  for (const { profile } of tokens) {
    for (const { network, count } of profile.from) {
      networks.set(network, (networks.get(network) ?? 0) + count);
    }
  }
  const lives = tokens.map(({ profile }) => Math.max(profile.lastMs - profile.firstMs, 1_000));
  const lifeMs = lives.reduce((sum, ms) => sum + ms, 0) / lives.length;
  const firstMs = Math.min(...tokens.map(({ profile }) => profile.firstMs));
  const lastMs = Math.max(...tokens.map(({ profile }) => profile.lastMs));
  return {
    tokens,
    networks: [...networks].sort((a, b) => b[1] - a[1] || (a[0] < b[0] ? -1 : 1)),
    generations: (lastMs - firstMs) / lifeMs,
    handovers: handoverShare(tokens, lifeMs),
  };
}

/** Only those count that ended before the last one began: the others had no time for a successor. */
function handoverShare(tokens: readonly Token[], lifeMs: number): number {
  const { before, afterMin, afterMax, ofLife } = HANDOVER_MS;
  const after = Math.min(Math.max(afterMin, ofLife * lifeMs), afterMax);
  const starts = tokens.map(({ profile }) => profile.firstMs).sort((a, b) => a - b);
  const lastStart = starts.at(-1) ?? 0;
  const ends = tokens
    .map(({ profile }) => profile.lastMs)
    .filter((ms) => ms < lastStart)
    .sort((a, b) => a - b);
  if (ends.length === 0) return 0;
  let taken = 0;
  let next = 0;
  for (const end of ends) {
    while (next < starts.length && starts[next]! < end - before) next += 1;
    if (next >= starts.length || starts[next]! > end + after) continue;
    taken += 1;
    next += 1;
  }
  return taken / ends.length;
}
