/**
 * Two counts: this window's, and the one before weighed by how much of it still lies in the last windowMs.
 * Assumes even spread in the window before: under 0.4 % of decisions differ from the log for clients within
 * the limit; for floods it differs in which hits pass, not in how many. Bound: `limit` in each window; 2 ×
 * limit in any span of windowMs, neared only by a burst at a window's very end and a trickle after it.
 */
import { type Algorithm, allowed, refused } from '../algorithm.js';

/** State: [expiry, start of window, count, count before]. Windows begin with the first hit after idleness. */
export const slidingCounter: Algorithm = {
  name: 'sliding-counter',
  step(state, { op, limit, windowMs, cost }, clockMs) {
    let start = state?.[1] ?? clockMs;
    let count = state?.[2] ?? 0;
    let before = state?.[3] ?? 0;
    let known = state !== undefined;
    const nowMs = Math.max(clockMs, start);
    const passed = Math.floor((nowMs - start) / windowMs);
    if (passed === 1) {
      before = count;
      count = 0;
      start += windowMs;
    } else if (passed > 1) {
      before = 0;
      count = 0;
      start = nowMs;
      known = false;
    }
    const leftMs = start + windowMs - nowMs;
    if (op === 'give') count = Math.max(0, count - cost);
    const weighed = before * leftMs;
    const room = Math.floor((limit * windowMs - count * windowMs - weighed) / windowMs);
    const expiry = start + 2 * windowMs;
    if (op === 'give') {
      const resetMs = count > 0 ? leftMs + windowMs : before > 0 ? leftMs : 0;
      return allowed(known ? [expiry, start, count, before] : undefined, room, resetMs);
    }
    const resetMs = leftMs + windowMs;
    if (cost > room) {
      const wait = waitFor(limit - cost, { count, before, leftMs, windowMs });
      return refused(state, room, resetMs, wait);
    }
    return allowed([expiry, start, count + cost, before], room - cost, resetMs);
  },
};

type Counts = Readonly<{ count: number; before: number; leftMs: number; windowMs: number }>;

/** Milliseconds until the weighed count is down to `target`, if nothing else comes. */
function waitFor(target: number, { count, before, leftMs, windowMs }: Counts): number {
  if (target < 0) return leftMs + windowMs;
  if (count <= target) return leftMs - Math.floor(((target - count) * windowMs) / Math.max(1, before));
  return leftMs + windowMs - Math.floor((target * windowMs) / count);
}
