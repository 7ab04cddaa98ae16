/**
 * A bucket that leaks `limit` per windowMs and holds `burst`: what would spill is refused (the leaky bucket
 * as a meter, ITU-T I.371). Bound: burst + t × limit / windowMs in any span t. It does not delay; a queue in
 * front would.
 */
import { type Algorithm, allowed, refused } from '../algorithm.js';

/** State: [time at which it is empty, level in units of 1/windowMs, time of that level]. */
export const leakyBucket: Algorithm = {
  name: 'leaky-bucket',
  step(state, { limit, windowMs, burst, cost }, clockMs) {
    const nowMs = Math.max(clockMs, state?.[2] ?? clockMs);
    const level = Math.max(0, (state?.[1] ?? 0) - (nowMs - (state?.[2] ?? nowMs)) * limit);
    const spills = level + cost * windowMs - burst * windowMs;
    const room = Math.floor((burst * windowMs - level) / windowMs);
    if (spills > 0) {
      const emptyMs = Math.ceil(level / limit);
      return refused(state ?? [nowMs, 0, nowMs], room, emptyMs, cost > burst ? windowMs : spills / limit);
    }
    const next = level + cost * windowMs;
    const resetMs = Math.ceil(next / limit);
    return allowed([nowMs + resetMs, next, nowMs], room - cost, resetMs);
  },
};
