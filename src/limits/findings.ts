/**
 * From the store's answers to findings: what is over, in words for the log and numbers for the RateLimit
 * fields.
 */
import type { Finding, LimitState } from '../core/finding.js';
import type { CheckResult } from './limiter-contract.js';
import type { Asked, Policy } from './policy.js';

export const ALARM_ID = 'BURST-ALARM';
export const UNAVAILABLE_ID = 'LIMITS-UNAVAILABLE';
export const STATE_ID = 'LIMIT-STATE';
const RETRY_UNREAD_MS = 1000;

/** One finding for each check that was refused or made to wait; `results` are in the order of `asked`. */
export function findingsFor(
  asked: readonly Asked[],
  results: readonly CheckResult[],
  points: number,
): Finding[] {
  const findings: Finding[] = [];
  asked.forEach((one, at) => {
    const result = results[at];
    if (result === undefined) return;
    if (!result.allowed) findings.push(findingFor(one, result, points));
    else if (result.delayMs !== undefined && result.delayMs > 0 && !one.alarm)
      findings.push(delayFor(one, result, result.delayMs));
  });
  return findings;
}

/** How everything that may refuse stands; `pass` keeps head and body apart. Undefined where nothing may. */
export function stateNote(
  asked: readonly Asked[],
  results: readonly CheckResult[],
  pass: 'head' | 'body',
): Finding | undefined {
  const limits: LimitState[] = [];
  asked.forEach((one, at) => {
    const result = results[at];
    if (result !== undefined && !one.alarm && !one.policy.config.observe) limits.push(stateOf(one, result));
  });
  if (limits.length === 0) return undefined;
  const message = limits
    .map(({ policy, by, remaining, limit }) => `${policy} by ${by}: ${remaining} of ${limit} left`)
    .join('; ');
  const id = pass === 'head' ? STATE_ID : `${STATE_ID}-BODY`;
  return { id, kind: 'note', points: 0, observed: true, message, limits };
}

function stateOf({ policy, by, check }: Asked, result: CheckResult): LimitState {
  const { limit, windowMs } = check;
  const { remaining, resetMs, retryAfterMs } = result;
  return { policy: policy.config.name, by, limit, windowMs, remaining, resetMs, retryAfterMs };
}

function findingFor(asked: Asked, result: CheckResult, points: number): Finding {
  const { policy, by, check, alarm } = asked;
  const { limit, windowMs } = check;
  const state = stateOf(asked, result);
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

/** The shape of a shaping bucket's answer: no refusal, no points, only a wait. */
function delayFor({ policy, by, check }: Asked, result: CheckResult, delayMs: number): Finding {
  const { name, observe } = policy.config;
  const { limit, windowMs } = check;
  const { remaining, resetMs } = result;
  return {
    id: `DELAY-${name.toUpperCase()}`,
    kind: 'note',
    points: 0,
    message: `Policy ${name} holds ${by} to ${limit} in ${windowMs / 1000} s: waits ${delayMs} ms.`,
    limit: { policy: name, by, limit, windowMs, remaining, resetMs, retryAfterMs: 0 },
    ...(observe ? { observed: true } : { delayMs }),
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
