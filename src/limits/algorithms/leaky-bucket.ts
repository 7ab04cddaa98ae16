/**
 * A bucket that leaks `limit` per windowMs and holds `burst`: what would spill is refused (the leaky bucket
 * as a meter, ITU-T I.371). With `delayMaxMs` it shapes: a request waits until what was in the bucket before
 * it has leaked, and is refused where that wait is too long. Bound: burst + t × limit / windowMs admitted in
 * any span t; shaped, what goes on keeps a distance of cost × windowMs / limit.
 */
import { type Algorithm, allowed, type Outcome, refused } from '../algorithm.js';
import type { Check } from '../limiter-contract.js';

/** State: [time at which it is empty, level in units of 1/windowMs, time of that level]. */
export const leakyBucket: Algorithm = {
  name: 'leaky-bucket',
  step(state, check, clockMs) {
    const { op, limit, windowMs, burst, cost, delayMaxMs = 0 } = check;
    const nowMs = Math.max(clockMs, state?.[2] ?? clockMs);
    const level = Math.max(0, (state?.[1] ?? 0) - (nowMs - (state?.[2] ?? nowMs)) * limit);
    if (op === 'give') {
      const left = Math.max(0, level - cost * windowMs);
      const emptyMs = Math.ceil(left / limit);
      return allowed(state && [nowMs + emptyMs, left, nowMs], room(check, left), emptyMs);
    }
    const spills = level + cost * windowMs - burst * windowMs;
    const delayMs = delayMaxMs > 0 ? Math.ceil(level / limit) : 0;
    if (spills > 0 || delayMs > delayMaxMs) {
      const spillMs = cost > burst ? windowMs : spills / limit;
      const waitMs = Math.max(spillMs, delayMs - delayMaxMs);
      return refused(state, room(check, level), Math.ceil(level / limit), waitMs);
    }
    const next = level + cost * windowMs;
    const resetMs = Math.ceil(next / limit);
    return delayed(allowed([nowMs + resetMs, next, nowMs], room(check, next), resetMs), delayMs);
  },
};

/** How many requests of cost 1 would be admitted at once; never below 0. */
function room({ limit, windowMs, burst, delayMaxMs = 0 }: Check, level: number): number {
  const held = Math.max(0, Math.floor((burst * windowMs - level) / windowMs));
  if (delayMaxMs === 0) return held;
  const slack = delayMaxMs * limit - level;
  return slack < 0 ? 0 : Math.min(held, Math.floor(slack / windowMs) + 1);
}

function delayed(outcome: Outcome, delayMs: number): Outcome {
  return delayMs === 0 ? outcome : { ...outcome, result: { ...outcome.result, delayMs } };
}
