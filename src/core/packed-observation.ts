/**
 * Observations on the line between processes: a tuple instead of an object, since names would be most of what
 * is sent. The reading side trusts nothing: what is no observation is refused, texts are cut and cleaned.
 */
import { REFUSALS, type LimitUse, type Observation } from './observation.js';
import { cleanText } from './text.js';

type Optional<T> = T | null;

export type PackedObservation = readonly [
  timeMs: number,
  requestId: string,
  node: string,
  site: string,
  ip: string,
  key: string,
  asn: Optional<number>,
  userAgent: string,
  session: Optional<string>,
  apiKey: Optional<string>,
  user: Optional<string>,
  headerHash: Optional<string>,
  ja4: Optional<string>,
  method: string,
  path: string,
  status: number,
  upstreamStatus: number,
  refusal: number,
  allowlisted: 0 | 1,
  near: Optional<readonly [policy: string, by: string, used: number, limit: number, windowMs: number]>,
];

const FIELDS = 20;
/** Characters of a name, an identity, an address. */
export const NAME_MAX = 256;

/** Survives JSON. */
export function packObservation(of: Observation): PackedObservation {
  const { near } = of;
  return [
    of.timeMs,
    of.requestId,
    of.node,
    of.site,
    of.ip,
    of.key,
    of.asn ?? null,
    of.userAgent,
    of.session ?? null,
    of.apiKey ?? null,
    of.user ?? null,
    of.headerHash ?? null,
    of.ja4 ?? null,
    of.method,
    of.path,
    of.status,
    of.upstreamStatus,
    REFUSALS.indexOf(of.refusal),
    of.allowlisted ? 1 : 0,
    near === undefined ? null : [near.policy, near.by, near.used, near.limit, near.windowMs],
  ];
}

/** Undefined for anything that `packObservation` did not make. Never throws. */
export function unpackObservation(packed: unknown): Observation | undefined {
  if (!Array.isArray(packed) || packed.length !== FIELDS) return undefined;
  const [timeMs, requestId, node, site, ip, key, asn, userAgent] = packed as unknown[];
  const [session, apiKey, user, headerHash, ja4, method, path] = packed.slice(8) as unknown[];
  const [status, upstreamStatus, refusal, allowlisted, near] = packed.slice(15) as unknown[];
  const texts = [requestId, node, site, ip, key, userAgent, method, path];
  const optional = [session, apiKey, user, headerHash, ja4];
  if (!texts.every(isText) || !optional.every((value) => value === null || isText(value))) return undefined;
  if (!isWhole(timeMs) || !isWhole(status) || !isWhole(upstreamStatus)) return undefined;
  if (asn !== null && !isWhole(asn)) return undefined;
  const use = near === null ? undefined : unpackNear(near);
  const refused = isWhole(refusal) ? REFUSALS[refusal] : undefined;
  if (refused === undefined || (near !== null && use === undefined)) return undefined;
  const text = (value: unknown): string => cleanText(value as string, NAME_MAX);
  const some = (value: unknown): string | undefined => (value === null ? undefined : text(value));
  return {
    timeMs,
    requestId: text(requestId),
    node: text(node),
    site: text(site),
    ip: text(ip),
    key: text(key),
    asn: asn ?? undefined,
    userAgent: text(userAgent),
    session: some(session),
    apiKey: some(apiKey),
    user: some(user),
    headerHash: some(headerHash),
    ja4: some(ja4),
    method: text(method),
    path: text(path),
    status,
    upstreamStatus,
    refusal: refused,
    allowlisted: allowlisted === 1,
    near: use,
  };
}

function unpackNear(near: unknown): LimitUse | undefined {
  if (!Array.isArray(near) || near.length !== 5) return undefined;
  const [policy, by, used, limit, windowMs] = near as unknown[];
  if (!isText(policy) || !isText(by)) return undefined;
  if (!isAmount(used) || !isAmount(limit) || !isAmount(windowMs)) return undefined;
  return { policy: cleanText(policy, NAME_MAX), by: cleanText(by, NAME_MAX), used, limit, windowMs };
}

const isText = (value: unknown): value is string => typeof value === 'string';
const isAmount = (value: unknown): value is number =>
  typeof value === 'number' && value >= 0 && value <= Number.MAX_SAFE_INTEGER;
const isWhole = (value: unknown): value is number => isAmount(value) && Number.isInteger(value);
