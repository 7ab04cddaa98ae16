/**
 * The engine: allowlist, blocklist, Tor exits, hosting networks and observed scores, all in memory. What the
 * lists say of an address is remembered until a feed changes; only the observed score is worked out each
 * time.
 */
import { networkInterfaces } from 'node:os';
import { resolve } from 'node:path';
import { LRUCache } from 'lru-cache';
import { canonicalAddress } from '../core/address.js';
import type { Channel } from '../core/channel.js';
import type { Clock } from '../core/clock.js';
import { OBSERVED_ID, type Finding } from '../core/finding.js';
import type { ReputationConfig } from './config.js';
import type { Reputation } from './contract.js';
import { asObservedEntry } from './observed-state.js';
import { createObservedScores } from './observed.js';
import type { ObservedScores } from './observed.js';
import { ALLOWED, blocked, findingsOf } from './score.js';
import type { Note } from './score.js';
import { TOPIC_RAISE, TOPIC_SYNC, TOPIC_UPDATE } from './serve-observed.js';
import type { FeedStatus, Log } from './source.js';
import type { AsnRecord } from './sources/asn.js';
import { createFeeds } from './sources/index.js';
import type { Feeds } from './sources/index.js';

const MEMO_MAX = 4096;

export type ReputationDeps = Readonly<{
  baseDir: string;
  clock: Clock;
  /** The line to the supervisor; without it observed scores live in this process only. */
  channel?: Channel;
  log: Log;
  /** Addresses of this machine; asked of the system where left out. */
  ownAddresses?: readonly string[];
}>;

export type ReputationEngine = Reputation & {
  /** One entry for each configured feed. */
  status(): FeedStatus[];
  /** Observed sources in memory and how many were dropped because it was full. */
  observed(): { entries: number; dropped: number };
};

/** What the lists say of one address. */
type Known = Readonly<{
  verdict: 'allow' | 'deny' | 'note';
  notes: readonly Note[];
  findings: readonly Finding[];
}>;

/**
 * Nothing is read before `start`, which never throws: a feed that is down is in `status` and judges nobody.
 */
export function createReputation(config: ReputationConfig, deps: ReputationDeps): ReputationEngine {
  const { clock, channel } = deps;
  const memo = new LRUCache<string, Known>({ max: MEMO_MAX });
  const scores = createObservedScores(config.observed);
  const own = deps.ownAddresses ?? systemAddresses();
  const feeds = createFeeds(
    config,
    { baseDir: deps.baseDir, own },
    {
      clock,
      log: deps.log,
      stateDir: config.stateDir === undefined ? undefined : resolve(deps.baseDir, config.stateDir),
      pollMs: config.poll,
      changed: () => memo.clear(),
    },
  );
  const look = createLook(config, feeds);
  const knownOf = (ip: string): Known => {
    let known = memo.get(ip);
    if (known === undefined) memo.set(ip, (known = look(ip)));
    return known;
  };
  let sweeper: NodeJS.Timeout | undefined;

  return {
    judge(client) {
      const known = knownOf(client.ip);
      if (known.verdict !== 'note' || scores.size === 0) return known.findings;
      const score = scores.score(client.key, clock.nowMs());
      return score === 0 ? known.findings : findingsOf([...known.notes, observedNote(score)]);
    },
    raise(client, points) {
      if (!(points > 0) || knownOf(client.ip).verdict === 'allow') return;
      const nowMs = clock.nowMs();
      scores.raise(client.key, points, nowMs);
      channel?.send(TOPIC_RAISE, [client.key, Math.min(100, points), nowMs]);
    },
    asn: (ip) => feeds.asn?.value()?.(ip),
    status: () => feeds.all.map((feed) => feed.status()),
    observed: () => ({ entries: scores.size, dropped: scores.dropped }),
    async start() {
      follow(channel, scores);
      sweeper = setInterval(() => scores.sweep(clock.nowMs()), config.observed.sweep).unref();
      for (const feed of feeds.all) await feed.start();
    },
    async close() {
      clearInterval(sweeper);
      await Promise.all(feeds.all.map((feed) => feed.close()));
    },
  };
}

function createLook(config: ReputationConfig, feeds: Feeds): (ip: string) => Known {
  const { points } = config;
  const isHosting = createHostingTest(config.asn?.hosting);
  const allow: Known = { verdict: 'allow', notes: [], findings: ALLOWED };
  const deny: Known = { verdict: 'deny', notes: [], findings: blocked(points.blocked) };
  return (ip) => {
    if (feeds.allowlist?.value()?.has(ip) === true) return allow;
    if (feeds.blocklist?.value()?.has(ip) === true) return deny;
    const notes: Note[] = [];
    if (feeds.tor?.value()?.has(ip) === true) {
      notes.push({ id: 'TOR-EXIT', points: points.tor, message: 'The address is a Tor exit.' });
    }
    const owner = feeds.asn?.value()?.(ip);
    if (owner !== undefined && isHosting(owner)) notes.push(hostingNote(owner, points.hosting));
    return notes.length === 0 ? UNKNOWN : { verdict: 'note', notes, findings: findingsOf(notes) };
  };
}

const UNKNOWN: Known = Object.freeze({ verdict: 'note', notes: [], findings: findingsOf([]) });

type Hosting = NonNullable<ReputationConfig['asn']>['hosting'];

function createHostingTest(hosting: Hosting | undefined): (owner: AsnRecord) => boolean {
  if (hosting === undefined) return () => false;
  const numbers = new Set(hosting.asns);
  const words = hosting.words.map((word) => word.toLowerCase());
  return ({ number, organization }) => {
    if (numbers.has(number)) return true;
    const name = organization.toLowerCase();
    return words.some((word) => name.includes(word));
  };
}

function hostingNote({ number, organization }: AsnRecord, points: number): Note {
  const name = organization === '' ? 'no name' : organization;
  const message = `The address belongs to a hosting network: AS${number}, ${name}.`;
  return { id: 'HOSTING-ASN', points, message };
}

function observedNote(score: number): Note {
  const points = Math.min(100, Math.round(score));
  const message = `Earlier refusals left this source an observed score of ${points}.`;
  return { id: OBSERVED_ID, points, message };
}

/** Takes over what the supervisor knows, now and from then on. */
function follow(channel: Channel | undefined, scores: ObservedScores): void {
  channel?.on(TOPIC_UPDATE, (body) => {
    if (!Array.isArray(body)) return;
    for (const item of body as unknown[]) {
      const entry = asObservedEntry(item);
      if (entry !== undefined) scores.set(entry);
    }
  });
  channel?.send(TOPIC_SYNC, null);
}

/** Addresses of this machine's interfaces, canonical. */
export function systemAddresses(): string[] {
  const all = Object.values(networkInterfaces()).flatMap((list) => list ?? []);
  return all.map(({ address }) => canonicalAddress(address)).filter((address) => address !== undefined);
}
