/** Builds every engine of a worker from one config and joins them into the snapshot that requests run on. */
import type { Channel } from '../core/channel.js';
import { createNetworkSet } from '../core/address.js';
import { steadyClock, type Clock } from '../core/clock.js';
import type { Fault } from '../core/errors.js';
import { NO_FINDINGS } from '../core/finding.js';
import { headerHash } from '../core/header-hash.js';
import { kafkaSettings } from '../bus/settings.js';
import type { Config } from '../config/schema.js';
import type { BanSet } from '../controls/ban-set.js';
import { createBanJudge, type BanJudge } from '../controls/judge-bans.js';
import { createHeaderScoring } from '../headers/score.js';
import type { FieldReader, Identities } from '../core/identity.js';
import { createIdentities } from '../identity/index.js';
import { createLimiter } from '../limits/limiter.js';
import type { AddressBook } from '../limits/shared-address.js';
import type { CounterStore, LimiterStats } from '../limits/limiter-contract.js';
import type { Share } from '../limits/share.js';
import type { MemoryStore } from '../limits/stores/memory.js';
import { createPipeline, type Run } from '../pipeline/run.js';
import { stagesOf } from '../pipeline/stages/index.js';
import type { Snapshot } from '../proxy/exchange.js';
import { createSiteLookup } from '../proxy/host.js';
import { createResolver, type Resolver } from '../proxy/resolver.js';
import { createUpstreams } from '../proxy/upstream.js';
import { redisSettings } from '../redis/settings.js';
import type { Reputation } from '../reputation/contract.js';
import { createReputation, type ReputationEngine } from '../reputation/reputation.js';
import { loadRuleEngine, type RuleCache, type RuleCounts } from '../rules/index.js';

export type Log = (
  level: 'info' | 'warn' | 'error',
  message: string,
  fields?: Readonly<Record<string, unknown>>,
) => void;

export type EngineDeps = Readonly<{
  store: CounterStore;
  channel: Channel | undefined;
  clock: Clock;
  log: Log;
  /** The same for all workers, so that a session hashes alike everywhere. */
  hashKey: string;
  /** Who shares a limit; the local fallback takes its part. */
  share?: () => Share;
  resolver?: Resolver;
  /** Last good addresses of names, kept from one config to the next. */
  lastGood?: Map<string, readonly string[]>;
  /** What the last config's limits had learned of shared addresses. */
  addressBook?: AddressBook;
  /** What the last config's limits counted along, for while Redis is away. */
  standIn?: MemoryStore;
  /** Where the rules stage counts what it could not do in one go; goes on over reloads. */
  ruleCounts?: RuleCounts;
  /** Compiled rules, kept from one config to the next. */
  ruleCache?: RuleCache;
  /** The bans in force; without it there are none. */
  bans?: () => BanSet;
  onFault?: (fault: Fault) => void;
}>;

export type Engines = Readonly<{
  snapshot: Snapshot;
  reputation: ReputationEngine;
  limitStats: () => LimiterStats;
  ruleCount: number;
  close(): Promise<void>;
}>;

/**
 * Throws a Fault (RULES_INVALID, FEED_UNREADABLE …) where the config cannot be carried out; then nothing
 * stays open.
 */
export async function buildEngines(config: Config, deps: EngineDeps): Promise<Engines> {
  const { baseDir } = config;
  const { clock, log, channel } = deps;
  // What can be wrong without a connection shows here, at check and at start.
  if (config.redis !== undefined) redisSettings(config.redis, { baseDir });
  if (config.kafka !== undefined) kafkaSettings(config.kafka, { baseDir });
  const { ruleCounts, ruleCache } = deps;
  const rules = await loadRuleEngine(config.rules, {
    baseDir,
    ...(ruleCounts === undefined ? {} : { counts: ruleCounts }),
    ...(ruleCache === undefined ? {} : { cache: ruleCache }),
  });
  const reputation = createReputation(config.reputation, {
    baseDir,
    clock,
    log,
    ...(channel ? { channel } : {}),
  });
  const identities = createIdentities(config.identity, deps.hashKey);
  const limiter = createLimiter(config.limits, {
    store: deps.store,
    identities,
    clock: steadyClock,
    ...(deps.share === undefined ? {} : { share: deps.share }),
    ...(deps.addressBook === undefined ? {} : { addressBook: deps.addressBook }),
    ...(deps.standIn === undefined ? {} : { standIn: deps.standIn }),
  });
  const apiKeyHeader = config.identity.apiKey?.header;
  const scoreHeaders = createHeaderScoring(
    config.headers,
    apiKeyHeader === undefined ? {} : { apiKeyHeader },
  );
  const observing = new Set(
    config.sites.filter((site) => (site.mode ?? config.mode) === 'observe').map((site) => site.name),
  );
  const upstreams = createUpstreams(config, {
    resolver: deps.resolver ?? createResolver(config.dns),
    ...(deps.lastGood === undefined ? {} : { lastGood: deps.lastGood }),
    nowMs: clock.nowMs,
    onProblem: (message) => log('warn', message),
  });
  const bans = banJudge(deps, identities);
  const pipeline = createPipeline(stagesOf({ reputation, bans, limiter, scoreHeaders, rules }), {
    pipeline: config.pipeline,
    decision: config.decision,
    observes: (site) => observing.has(site),
    refuseUnknownHost: config.unknownHost === 'refuse',
    onFault: deps.onFault ?? ((fault) => log('warn', fault.message, { code: fault.code })),
  });
  const close = await startAll([reputation, upstreams]);
  const snapshot: Snapshot = {
    config,
    settings: {
      headersMax: config.caps.headers,
      siteOf: createSiteLookup(config.sites),
      fallbackSite: config.sites[0]!.name,
      trusted: createNetworkSet(config.trustedProxies),
      ipv6Prefix: config.ipv6Prefix,
    },
    sites: new Map(config.sites.map((site) => [site.name, site])),
    pipeline,
    rules,
    upstreams,
    onAnswered: (run, status, raw) => limiter.answered(run.facts, { status, setCookies: setCookiesOf(raw) }),
    onRefused: (run) => raiseFor(run, reputation, config.reputation.points.refusal),
    rateLimitFields: config.limits.headers,
    asn: (ip) => reputation.asn(ip)?.number,
    identities: (facts, field) => logIdentities(identities, facts, field),
  };
  return {
    snapshot,
    reputation,
    limitStats: limiter.stats,
    ruleCount: rules.ruleCount,
    close,
  };
}

function banJudge({ bans, clock }: EngineDeps, identities: Identities): BanJudge {
  if (bans === undefined) return () => NO_FINDINGS;
  return createBanJudge(bans, {
    nowMs: clock.nowMs,
    readers: {
      // Whichever of several cookies the origin heeds.
      session: (facts) => [
        identities.read('session', facts, undefined),
        ...(identities.others?.('session', facts, undefined) ?? []),
      ],
      apiKey: (facts) => [identities.read('apiKey', facts, undefined)],
      headers: (facts) => [headerHash(facts.rawHeaders)],
    },
  });
}

type Startable = { start(): Promise<void>; close(): void | Promise<void> };

/** One after the other; where one cannot start, all are closed again. Answers what closes them. */
async function startAll(parts: readonly Startable[]): Promise<() => Promise<void>> {
  const close = async (): Promise<void> => {
    await Promise.all(parts.map((part) => part.close()));
  };
  try {
    for (const part of parts) await part.start();
  } catch (error) {
    await close();
    throw error;
  }
  return close;
}

/**
 * Only rules raise a source's score: never a limit, a list, a ban, or our own 4xx for what could not be read.
 * A ban that is only observed changes nothing here either.
 */
function raiseFor(run: Run, reputation: Reputation, points: number): void {
  const decision = run.decision;
  if (decision?.action !== 'block' || decision.ruleIds.length === 0) return;
  const listed = run.found[0]!.some(
    ({ kind, observed }) => kind === 'allow' || (kind === 'deny' && observed !== true),
  );
  if (listed) return;
  reputation.raise(run.facts.client, points);
}

const NO_COOKIES: readonly string[] = [];

/** Values of the Set-Cookie fields in a raw head (name and value in turn). */
function setCookiesOf(raw: readonly Buffer[]): readonly string[] {
  let found: string[] | undefined;
  for (let index = 0; index + 1 < raw.length; index += 2) {
    const name = raw[index]!;
    if (name.length !== 10 || name.toString('latin1').toLowerCase() !== 'set-cookie') continue;
    (found ??= []).push(raw[index + 1]!.toString('latin1'));
  }
  return found ?? NO_COOKIES;
}

function logIdentities(
  identities: Identities,
  facts: Run['facts'],
  field: FieldReader | undefined,
): ReturnType<Snapshot['identities']> {
  const found: ReturnType<Snapshot['identities']> = {};
  for (const name of ['session', 'apiKey', 'user'] as const) {
    const value = identities.read(name, facts, field);
    if (value !== undefined) found[name] = value;
  }
  return found;
}
