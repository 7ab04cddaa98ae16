/**
 * The fields `RateLimit` and `RateLimit-Policy` (draft-ietf-httpapi-ratelimit-headers): lists of items, one a
 * policy, that a client can pace itself by. Names are structured field strings (RFC 9651): printable ASCII.
 */
import type { LimitState } from '../core/finding.js';

/** Policies named at most; a client needs the ones nearest to their end. */
const POLICIES_MAX = 8;

/**
 * Name and value in turn; empty without states. The strictest policy comes first, and of a policy that counts
 * under several identities the strictest one speaks.
 */
export function rateLimitFields(states: readonly LimitState[]): string[] {
  const told = strictestFirst(states);
  if (told.length === 0) return [];
  const policies = told.map(
    (state) => `${name(state)};q=${state.limit};w=${Math.max(1, Math.ceil(state.windowMs / 1000))}`,
  );
  const limits = told.map((state) => `${name(state)};r=${whole(state.remaining)};t=${waitS(state)}`);
  return ['RateLimit-Policy', policies.join(', '), 'RateLimit', limits.join(', ')];
}

function strictestFirst(states: readonly LimitState[]): readonly LimitState[] {
  if (states.length < 2) return states;
  const named = new Set<string>();
  return [...states]
    .sort((a, b) => b.retryAfterMs - a.retryAfterMs || a.remaining - b.remaining || b.resetMs - a.resetMs)
    .filter(({ policy }) => !named.has(policy) && named.add(policy))
    .slice(0, POLICIES_MAX);
}

const name = ({ policy }: LimitState): string => `"${policy.replace(/[^\x20\x21\x23-\x5b\x5d-\x7e]/g, '')}"`;
const whole = (value: number): number => Math.max(0, Math.floor(value));
const waitS = ({ resetMs }: LimitState): number => Math.max(0, Math.ceil(resetMs / 1000));
