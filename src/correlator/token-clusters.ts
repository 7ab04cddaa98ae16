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
  /** Tokens with fewer requests make no cluster, but speak against one of people. */
  requests: number;
}>;

export type Cluster = Readonly<{
  tokens: readonly Token[];
  /** Networks by requests, the busiest first. */
  networks: readonly (readonly [network: string, requests: number])[];
  /** How many times over the time of a mean token their whole time is. */
  generations: number;
  /** Share of the tokens that ended whose end was another one's beginning, beyond what chance explains. */
  handovers: number;
  /**
   * Variance over mean of how many there are at once: 1 for visitors who come as they like, more where they
   * come in waves, 0 for a fixed number of workers. Infinity where the time is too short to say.
   */
  dispersion: number;
  /** Tokens of the same networks and order that ended with fewer requests. */
  strays: number;
}>;

type Walk = Readonly<{
  token: Token;
  direction: Float64Array;
  pace: number;
  ended: boolean;
  /** Where most of its requests came from. */
  network: string;
  address: string;
}>;

const WALKS_MAX = 3_000;
/** So many may stand for a cluster in each round. */
const LEADERS_MAX = 24;
const ROUNDS_MAX = 4;
const PACE_SPREAD = 2;
const ENDED_MS = 30_000;
const BEFORE_MS = 5_000;
const AFTER_MAX_MS = 120_000;
/** So wide is the time for a handover that chance alone would fill 30 % of them. */
const CHANCE = 0.35;

type Group = { busy: Walk[]; light: Walk[] };
/** Its first walk stands for all. */
type Alike = { walks: Walk[]; strays: number };

export function clusterTokens(tokens: readonly Token[], rules: ClusterRules, nowMs: number): Cluster[] {
  const groups = new Map<string, Group>();
  const latest = [...tokens].sort(byLatest).slice(0, WALKS_MAX);
  for (const token of latest) {
    const walk = walkOf(token, nowMs);
    const name = `${token.profile.site} ${walk.network}`;
    let group = groups.get(name);
    if (group === undefined) groups.set(name, (group = { busy: [], light: [] }));
    const list = token.profile.count >= rules.requests ? group.busy : group.light;
    list.push(walk);
  }
  const found = [...groups.values()].flatMap((group) => densest(group, rules));
  return joined(found, rules).map(summed);
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
    address: busiest?.key ?? '',
  };
}

function isAlike(one: Walk, other: Walk, { similarity, spread }: ClusterRules): boolean {
  const [a, b] = [one.token.profile.count, other.token.profile.count];
  // One that is still under way may become as long as the other.
  if (a * spread < b && one.ended) return false;
  if (b * spread < a && other.ended) return false;
  if (one.pace > other.pace * PACE_SPREAD || other.pace > one.pace * PACE_SPREAD) return false;
  return cosine(one, other) >= similarity;
}

function cosine(one: Walk, other: Walk): number {
  let sum = 0;
  for (let at = 0; at < GRAMS; at++) sum += one.direction[at]! * other.direction[at]!;
  return sum;
}

/** The walk with most like it and those, then again among the rest. */
function densest({ busy, light }: Group, rules: ClusterRules): Alike[] {
  const found: Alike[] = [];
  let rest = [...busy];
  for (let round = 0; round < ROUNDS_MAX && rest.length > 1; round++) {
    let best: Walk[] = [];
    for (const leader of sampled(rest)) {
      const alike = rest.filter((walk) => walk !== leader && isAlike(leader, walk, rules));
      if (alike.length + 1 > best.length) best = [leader, ...alike];
    }
    if (best.length < 2) break;
    const chosen = new Set(best);
    const strays = light.filter((walk) => walk.ended && cosine(best[0]!, walk) >= rules.similarity);
    found.push({ walks: best, strays: strays.length });
    rest = rest.filter((walk) => !chosen.has(walk));
  }
  return found;
}

/** Evenly over the time in which they ended. */
function sampled(walks: readonly Walk[]): readonly Walk[] {
  if (walks.length <= LEADERS_MAX) return walks;
  return Array.from(
    { length: LEADERS_MAX },
    (_, at) => walks[Math.floor((at * walks.length) / LEADERS_MAX)]!,
  );
}

/** The same walk from several networks is one cluster. */
function joined(clusters: readonly Alike[], rules: ClusterRules): Alike[] {
  const found: Alike[] = [];
  const nameOf = ({ walks }: Alike): string => walks[0]!.token.name;
  const sizeFirst = [...clusters].sort(
    (a, b) => b.walks.length - a.walks.length || (nameOf(a) < nameOf(b) ? -1 : 1),
  );
  for (const { walks, strays } of sizeFirst) {
    const leader = walks[0]!;
    const same = found.find(({ walks: [first] }) => {
      const isSite = first!.token.profile.site === leader.token.profile.site;
      return isSite && isAlike(first!, leader, rules);
    });
    if (same === undefined) found.push({ walks: [...walks], strays });
    else {
      same.walks.push(...walks);
      same.strays += strays;
    }
  }
  return found;
}

function summed({ walks, strays }: Alike): Cluster {
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
    handovers: Math.max(handoverShare([tokens]), handoverShare(byAddress(walks))),
    dispersion: dispersionOf(tokens, lifeMs),
    strays,
  };
}

/** A worker often stays where it is, and many workers at once would hide each other's handovers. */
function byAddress(walks: readonly Walk[]): Token[][] {
  const chains = new Map<string, Token[]>();
  for (const { token, address } of walks) {
    const chain = chains.get(address);
    if (chain === undefined) chains.set(address, [token]);
    else chain.push(token);
  }
  return [...chains.values()];
}

/** Only those count that ended before the last one of their chain began: the others had no time. */
function handoverShare(chains: readonly (readonly Token[])[]): number {
  let [ended, followed] = [0, 0];
  for (const chain of chains) {
    const starts = chain.map(({ profile }) => profile.firstMs).sort((a, b) => a - b);
    const lastStart = starts.at(-1) ?? 0;
    const ends = chain.map(({ profile }) => profile.lastMs).filter((ms) => ms < lastStart);
    const betweenMs = (lastStart - (starts[0] ?? 0)) / chain.length;
    ended += ends.length;
    followed += followedEnds(
      ends.sort((a, b) => a - b),
      starts,
      Math.min(AFTER_MAX_MS, CHANCE * betweenMs),
    );
  }
  return ended === 0 ? 0 : followed / ended;
}

/** Each start follows one end at most. Both sorted. */
function followedEnds(ends: readonly number[], starts: readonly number[], afterMs: number): number {
  let [followed, next] = [0, 0];
  for (const end of ends) {
    while (next < starts.length && starts[next]! < end - Math.min(BEFORE_MS, afterMs)) next += 1;
    if (next >= starts.length || starts[next]! > end + afterMs) continue;
    followed += 1;
    next += 1;
  }
  return followed;
}

const INSTANTS = 64;

/** Without the first and the last lifetime, in which workers start and tokens are too young to be here. */
function dispersionOf(tokens: readonly Token[], lifeMs: number): number {
  const firstMs = Math.min(...tokens.map(({ profile }) => profile.firstMs)) + lifeMs;
  const lastMs = Math.max(...tokens.map(({ profile }) => profile.lastMs)) - lifeMs;
  if (lastMs - firstMs < 2 * lifeMs) return Infinity;
  const counts = Array.from({ length: INSTANTS }, (_, at) => {
    const ms = firstMs + (at * (lastMs - firstMs)) / (INSTANTS - 1);
    return tokens.filter(({ profile }) => profile.firstMs <= ms && profile.lastMs >= ms).length;
  });
  const mean = counts.reduce((sum, count) => sum + count, 0) / INSTANTS;
  const variance = counts.reduce((sum, count) => sum + (count - mean) ** 2, 0) / INSTANTS;
  return mean === 0 ? Infinity : variance / mean;
}
