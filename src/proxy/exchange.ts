/**
 * What one request and its answer have in common while they are under way: sockets, counters, times, the run
 * through the pipeline. Owned by handle.ts; forward.ts and upgrade.ts write into it what they saw.
 */
import type { Decision } from '../core/decision.js';
import type { DecisionEvent, Step } from '../core/event.js';
import { headerHash } from '../core/header-hash.js';
import type { FieldReader } from '../core/identity.js';
import type { RequestFacts } from '../core/request.js';
import { rateLimitFields } from '../ladder/rate-limit-fields.js';
import { nearOf } from '../limits/near.js';
import { scoreOfRun, stepsOf, type Pipeline, type Run } from '../pipeline/run.js';
import type { RuleEngine } from '../rules/engine.js';
import type { UpstreamSet } from './upstream.js';
import type { FactsSettings, FramingProblem } from './facts.js';
import type { ProxyConfig, SiteConfig } from './config.js';

/** Everything a request keeps from its beginning to its end, whatever is reloaded meanwhile. */
export type Snapshot = Readonly<{
  config: ProxyConfig;
  settings: FactsSettings;
  sites: ReadonlyMap<string, SiteConfig>;
  pipeline: Pipeline;
  rules: RuleEngine;
  upstreams: UpstreamSet;
  /**
   * Once for each judged request: the origin's status and raw head, or 0 where it is sure that there is none.
   */
  onAnswered: (run: Run, status: number, raw: readonly Buffer[]) => void;
  /** A refusal for cause: the source's observed score rises. */
  onRefused: (run: Run) => void;
  /** Which answers carry RateLimit fields. */
  rateLimitFields: 'refused' | 'always' | 'off';
  asn: (ip: string) => number | undefined;
  /** Keyed hashes of session, key and user, for the log; `field` where a body was read. */
  identities: (
    facts: RequestFacts,
    field: FieldReader | undefined,
  ) => { session?: string; apiKey?: string; user?: string };
}>;

export type UpstreamTrace = NonNullable<DecisionEvent['upstream']>;

export type Exchange = {
  readonly snapshot: Snapshot;
  readonly startedMs: number;
  run: Run | undefined;
  upstream: UpstreamTrace | undefined;
  status: number;
  bytesIn: number;
  bytesOut: number;
  clientAborted: boolean;
  /** What the origin's side does when the client's is closed. */
  onClose: (() => void) | undefined;
  bodyInspection: 'whole' | 'streamed' | undefined;
  error: string | undefined;
  /** True once `onAnswered` was told. */
  answered: boolean;
  /** Milliseconds for which it was made to wait. */
  delayedMs: number;
  done: boolean;
};

const NO_HEAD: readonly Buffer[] = [];

/** Tells the limits what the origin answered; only the first call counts. */
export function answered(exchange: Exchange, status: number, raw: readonly Buffer[] = NO_HEAD): void {
  if (exchange.answered || exchange.run === undefined) return;
  exchange.answered = true;
  exchange.snapshot.onAnswered(exchange.run, status, raw);
}

export function openExchange(snapshot: Snapshot): Exchange {
  return {
    snapshot,
    startedMs: performance.now(),
    run: undefined,
    upstream: undefined,
    status: 0,
    bytesIn: 0,
    bytesOut: 0,
    clientAborted: false,
    onClose: undefined,
    bodyInspection: undefined,
    error: undefined,
    answered: false,
    delayedMs: 0,
    done: false,
  };
}

/** How the limits of a request stand, in RateLimit fields for the origin's answer; name and value in turn. */
export function limitFields({ snapshot, run }: Exchange): string[] {
  if (snapshot.rateLimitFields !== 'always' || run === undefined) return [];
  return rateLimitFields(run.found.flat().flatMap(({ limits }) => limits ?? []));
}

const JUDGING = ['reputation', 'limits', 'headers', 'rules'] as const;
const PASSED: Decision = { action: 'pass', status: 0, reason: 'nothing against it', ruleIds: [] };

export type EventIdentity = Readonly<{ node: string; worker: number }>;

/** The one event of a judged request. */
export function eventOf(exchange: Exchange, who: EventIdentity): DecisionEvent | undefined {
  const { run, snapshot } = exchange;
  if (run === undefined) return undefined;
  const { facts } = run;
  const decision = run.decision ?? PASSED;
  const score = scoreOfRun(run);
  const steps: Step[] = stepsOf(run, JUDGING);
  const decisionUs = Math.round(run.decisionMs * 1000);
  steps.push({ stage: 'decision', before: score, after: score, durationUs: decisionUs, findings: [] });
  const event: DecisionEvent = {
    v: 1,
    time: isoTime(facts.receivedAtMs),
    requestId: facts.requestId,
    node: who.node,
    worker: who.worker,
    site: facts.site,
    host: facts.host,
    client: clientOf(run, snapshot),
    method: facts.method,
    path: facts.path,
    status: exchange.status,
    action: exchange.error !== undefined && decision.action === 'pass' ? 'error' : decision.action,
    reason: exchange.error ?? decision.reason,
    ruleIds: decision.ruleIds.length === 0 ? [] : [...decision.ruleIds],
    score,
    steps,
    durationUs: {
      total: Math.round((performance.now() - exchange.startedMs) * 1000),
      reputation: steps[0]!.durationUs,
      limits: steps[1]!.durationUs,
      headers: steps[2]!.durationUs,
      rules: steps[3]!.durationUs,
      decision: decisionUs,
    },
    bytesIn: exchange.bytesIn,
    bytesOut: exchange.bytesOut,
  };
  if (facts.query !== '') event.query = facts.query;
  if (decision.wouldBe !== undefined) event.wouldBe = decision.wouldBe;
  const near = nearOf(facts);
  if (near !== undefined) event.near = near;
  if (exchange.upstream !== undefined) event.upstream = exchange.upstream;
  if (exchange.delayedMs > 0) event.delayedMs = exchange.delayedMs;
  if (exchange.clientAborted) event.clientAborted = true;
  if (exchange.bodyInspection !== undefined) event.bodyInspection = exchange.bodyInspection;
  if (exchange.error !== undefined) event.error = exchange.error;
  return event;
}

function clientOf({ facts, field }: Run, snapshot: Snapshot): DecisionEvent['client'] {
  const { ip, key } = facts.client;
  const client: DecisionEvent['client'] = { ip, key, userAgent: facts.headers.get('user-agent') ?? '' };
  const { session, apiKey, user } = snapshot.identities(facts, field);
  if (session !== undefined) client.session = session;
  if (apiKey !== undefined) client.apiKey = apiKey;
  if (user !== undefined) client.user = user;
  client.headerHash = headerHash(facts.rawHeaders);
  const asn = snapshot.asn(ip);
  if (asn !== undefined) client.asn = asn;
  return client;
}

let lastMs = NaN;
let lastTime = '';

/** Many requests share a millisecond. */
function isoTime(ms: number): string {
  if (ms !== lastMs) {
    lastTime = new Date(ms).toISOString();
    lastMs = ms;
  }
  return lastTime;
}

/** The event of a request that could not be read: refused before any stage. */
export function framingEvent(
  problem: FramingProblem,
  seen: Readonly<{
    requestId: string;
    ip: string;
    method: string;
    target: string;
    host: string;
    nowMs: number;
  }>,
  who: EventIdentity,
): DecisionEvent {
  const finding = {
    id: problem.id,
    kind: 'malformed',
    points: 0,
    status: problem.status,
    message: problem.problem,
  } as const;
  const nothing = { total: 0, reputation: 0, limits: 0, headers: 0, rules: 0, decision: 0 };
  return {
    v: 1,
    time: isoTime(seen.nowMs),
    requestId: seen.requestId,
    node: who.node,
    worker: who.worker,
    site: 'unknown',
    host: seen.host,
    client: { ip: seen.ip, key: seen.ip },
    method: seen.method,
    path: seen.target.split('?', 1)[0] ?? '',
    status: problem.status,
    action: 'block',
    reason: problem.problem,
    ruleIds: [],
    score: 0,
    steps: [{ stage: 'framing', before: 0, after: 0, durationUs: 0, findings: [finding] }],
    durationUs: nothing,
    bytesIn: 0,
    bytesOut: 0,
  };
}
