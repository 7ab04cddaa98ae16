/**
 * One stamp per unit allowed. Exact: never more than `limit` in any span of windowMs. Memory is 8 bytes a
 * stamp (2 to 6 in Redis) and never more than `limit` of them, so it is for few, sensitive
 * identities (login).
 */
import { type Algorithm, allowed, refused } from '../algorithm.js';

/** State: [expiry, stamps in ascending order …]. */
export const slidingLog: Algorithm = {
  name: 'sliding-log',
  step(state, { op, limit, windowMs, cost }, clockMs) {
    const stamps = state === undefined ? [] : state.slice(1);
    const nowMs = Math.max(clockMs, stamps.at(-1) ?? clockMs);
    let stale = 0;
    while (stale < stamps.length && (stamps[stale] ?? 0) <= nowMs - windowMs) stale++;
    const kept = stale === 0 ? stamps : stamps.slice(stale);
    if (op === 'give') {
      const left = kept.slice(0, Math.max(0, kept.length - cost));
      const expiryMs = (left.at(-1) ?? nowMs - windowMs) + windowMs;
      return allowed(state && [expiryMs, ...left], limit - left.length, expiryMs - nowMs);
    }
    const newest = kept.at(-1);
    if (kept.length + cost > limit) {
      const resetMs = newest === undefined ? windowMs : newest + windowMs - nowMs;
      const frees = kept[Math.min(kept.length - 1, kept.length + cost - limit - 1)];
      const waitMs = frees === undefined ? windowMs : frees + windowMs - nowMs;
      return refused(state, limit - kept.length, resetMs, waitMs);
    }
    const next = [nowMs + windowMs, ...kept];
    for (let unit = 0; unit < cost; unit++) next.push(nowMs);
    return allowed(next, limit - kept.length - cost, windowMs);
  },
};
