/**
 * Counts in windows that begin with the first hit (so identities do not all start anew in the same instant).
 * Bound: `limit` in each window, up to 2 × limit in a span of windowMs that straddles two of them.
 */
import { type Algorithm, allowed, refused } from '../algorithm.js';

/** State: [end of window, count]. */
export const fixedWindow: Algorithm = {
  name: 'fixed-window',
  step(state, { op, limit, windowMs, cost }, nowMs) {
    const live = state !== undefined && nowMs < (state[0] ?? 0) ? state : undefined;
    const end = live?.[0] ?? nowMs + windowMs;
    const count = live?.[1] ?? 0;
    // After the clock stepped back the end may lie further away than one window.
    const resetMs = Math.min(windowMs, end - nowMs);
    if (op === 'give') {
      const left = Math.max(0, count - cost);
      return allowed(live && [end, left], limit - left, left > 0 ? resetMs : 0);
    }
    if (count + cost > limit) return refused(live, limit - count, resetMs, resetMs);
    return allowed([end, count + cost], limit - count - cost, resetMs);
  },
};
