/**
 * A bucket of `burst` tokens, filled with `limit` per windowMs; a call takes `cost` of them.
 * Exact average with a stated burst. Bound: burst + t × limit / windowMs in any span t.
 */
import { type Algorithm, allowed, refused } from '../algorithm.js';

/** State: [time at which it is full, tokens in units of 1/windowMs, time of that count]. */
export const tokenBucket: Algorithm = {
  name: 'token-bucket',
  step(state, { op, limit, windowMs, burst, cost }, clockMs) {
    const full = burst * windowMs;
    const price = cost * windowMs;
    const nowMs = Math.max(clockMs, state?.[2] ?? clockMs);
    const tokens = Math.min(full, (state?.[1] ?? full) + (nowMs - (state?.[2] ?? nowMs)) * limit);
    const given = op === 'give';
    if (!given && price > tokens) {
      const waitMs = cost > burst ? windowMs : (price - tokens) / limit;
      return refused(state, Math.floor(tokens / windowMs), Math.ceil((full - tokens) / limit), waitMs);
    }
    const left = given ? Math.min(full, tokens + price) : tokens - price;
    const resetMs = Math.ceil((full - left) / limit);
    const next = given && state === undefined ? undefined : [nowMs + resetMs, left, nowMs];
    return allowed(next, Math.floor(left / windowMs), resetMs);
  },
};
