/**
 * The part of a limit that one worker holds by itself while the shared store is away. Where a policy is exact
 * the parts of all workers of all nodes add up to the limit and no more; some may then hold nothing at all.
 * Elsewhere each part is rounded up, so that nobody is shut out by a small limit.
 */
import type { Check, CheckResult } from './limiter-contract.js';

/** `rank` and `worker` count from 0; a rank that is not known is Infinity. */
export type Share = Readonly<{ nodes: number; rank: number; workers: number; worker: number }>;

export const WHOLE: Share = { nodes: 1, rank: 0, workers: 1, worker: 0 };

export function portionOf(limit: number, exact: boolean, { nodes, rank, workers, worker }: Share): number {
  if (!exact) return Math.ceil(limit / (nodes * workers));
  return part(part(limit, nodes, rank), workers, worker);
}

/** Parts differ by one at most; the first ones are the larger. */
function part(whole: number, parts: number, index: number): number {
  return Math.floor(whole / parts) + (index < whole % parts ? 1 : 0);
}

/** The check as this worker alone may ask it; undefined where its part is too small for a single request. */
export function shareOf(check: Check, exact: boolean, share: Share): Check | undefined {
  if (share.nodes * share.workers === 1) return check;
  const least = exact ? 0 : check.cost;
  const limit = Math.max(least, portionOf(check.limit, exact, share));
  const burst = Math.max(least, portionOf(check.burst, exact, share));
  return Math.min(limit, burst) < check.cost ? undefined : { ...check, limit, burst };
}

/** Where the part is nothing: as refused as a limit that is used up. */
export function nothingLeft({ windowMs }: Check): CheckResult {
  return { allowed: false, remaining: 0, resetMs: windowMs, retryAfterMs: windowMs };
}
