/**
 * What the correlator reads of one decision: the part of the event that tells who asked for what and how it
 * ended, flat and small, so that a line between processes and a detector's memory stay cheap. Projected from
 * the event in the worker (embedded) or from its JSON behind the bus.
 */
import type { DecisionEvent } from './event.js';

/**
 * Why the request did not reach the origin: `ban` is the blocklist of any kind, `score` the decision without
 * a rule, `unread` a request that could not be read in one way only. Requests that would have been refused
 * in observe mode carry the refusal too.
 */
export const REFUSALS = ['none', 'ban', 'limit', 'rules', 'score', 'unread'] as const;
export type Refusal = (typeof REFUSALS)[number];

/** How near the closest limit is, from 60 % of it on; `used` is above `limit` where that limit was over. */
export type LimitUse = Readonly<{
  policy: string;
  by: string;
  used: number;
  limit: number;
  windowMs: number;
}>;

export type Observation = Readonly<{
  /** When the request came, milliseconds since the epoch. */
  timeMs: number;
  requestId: string;
  node: string;
  site: string;
  /** Canonical address. */
  ip: string;
  /** What bans key on: the IPv4 address or the IPv6 prefix. */
  key: string;
  asn: number | undefined;
  userAgent: string;
  /** Keyed hashes, never the secret. */
  session: string | undefined;
  apiKey: string | undefined;
  user: string | undefined;
  /** Hash over the names of the header fields in their order; undefined for what could not be read. */
  headerHash: string | undefined;
  ja4: string | undefined;
  method: string;
  /** Without query, at most 256 characters. */
  path: string;
  /** What the client got; 0 where it left before. */
  status: number;
  /** What the origin answered; 0 where it was not asked or gave no answer. */
  upstreamStatus: number;
  refusal: Refusal;
  /** On the allowlist: no detector may hold anything against it. */
  allowlisted: boolean;
  near: LimitUse | undefined;
}>;

const PATH_MAX = 256;
const AGENT_MAX = 256;

/** The same for the event as an object and as read back from its JSON. */
export function observationOf(event: DecisionEvent): Observation {
  const { client } = event;
  return {
    timeMs: Date.parse(event.time),
    requestId: event.requestId,
    node: event.node,
    site: event.site,
    ip: client.ip,
    key: client.key,
    asn: client.asn,
    userAgent: cutTo(client.userAgent ?? '', AGENT_MAX),
    session: client.session,
    apiKey: client.apiKey,
    user: client.user,
    headerHash: client.headerHash,
    ja4: client.ja4,
    method: event.method,
    path: cutTo(event.path, PATH_MAX),
    status: event.status,
    upstreamStatus: event.upstream?.status ?? 0,
    refusal: refusalOf(event),
    allowlisted: hasReputation(event, 'allow'),
    near: event.near,
  };
}

const cutTo = (text: string, max: number): string => (text.length > max ? text.slice(0, max) : text);

function refusalOf(event: DecisionEvent): Refusal {
  const action = event.wouldBe ?? event.action;
  if (action === 'limit') return 'limit';
  if (action !== 'block') return hasReputation(event, 'deny') ? 'ban' : 'none';
  if (hasReputation(event, 'deny')) return 'ban';
  if (event.ruleIds.length > 0) return 'rules';
  const unread = event.steps.some(({ findings }) => findings.some(({ kind }) => kind === 'malformed'));
  return unread ? 'unread' : 'score';
}

function hasReputation({ steps }: DecisionEvent, kind: 'allow' | 'deny'): boolean {
  for (const { stage, findings } of steps) {
    if (stage === 'reputation') return findings.some((finding) => finding.kind === kind);
  }
  return false;
}
