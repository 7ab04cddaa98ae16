/**
 * From the store's answers to findings: what is over, in words for the log and numbers for the RateLimit
 * fields.
 */
import type { Finding } from '../core/finding.js';
import type { CheckResult } from './limiter-contract.js';
import type { Asked, Policy } from './policy.js';

export const ALARM_ID = 'BURST-ALARM';
export const UNAVAILABLE_ID = 'LIMITS-UNAVAILABLE';
const RETRY_UNREAD_MS = 1000;

/** One finding for each check that was refused; `results` are in the order of `asked`. */
export function findingsFor(
  asked: readonly Asked[],
  results: readonly CheckResult[],
  points: number,
): Finding[] {
  const findings: Finding[] = [];
  asked.forEach((one, at) => {
    const result = results[at];
    if (result !== undefined && !result.allowed) findings.push(findingFor(one, result, points));
  });
  return findings;
}

function findingFor({ policy, by, check, alarm }: Asked, result: CheckResult, points: number): Finding {
  const { limit, windowMs } = check;
  const { remaining, resetMs, retryAfterMs } = result;
  const state = { policy: policy.config.name, by, limit, windowMs, remaining, resetMs, retryAfterMs };
  const rate = `${limit} in ${windowMs / 1000} s by ${by}`;
  if (alarm) {
    const message = `A burst above ${rate} (policy ${policy.config.name}).`;
    return { id: ALARM_ID, kind: 'note', points: 0, observed: true, message, limit: state };
  }
  const message = policy.config.message ?? `Over the limit of policy ${policy.config.name}: ${rate}.`;
  const observed = policy.config.observe;
  return {
    id: policy.id,
    kind: 'limit',
    points: observed ? 0 : points,
    message,
    limit: state,
    ...(observed ? { observed } : {}),
  };
}

/** `onFailure: refuse`: nobody knows the count, so the request is held to be over it. */
export function refusedUnread(policy: Policy, points: number): Finding {
  const { name, limit, observe } = policy.config;
  const by = policy.slots.map((slot) => slot.by).join(',');
  const wait = { remaining: 0, resetMs: RETRY_UNREAD_MS, retryAfterMs: RETRY_UNREAD_MS };
  return {
    id: policy.id,
    kind: 'limit',
    points: observe ? 0 : points,
    message: `Policy ${name} cannot be counted now and refuses meanwhile (onFailure: refuse).`,
    limit: { policy: name, by, limit: limit.limit, windowMs: limit.windowMs, ...wait },
    ...(observe ? { observed: true } : {}),
  };
}
