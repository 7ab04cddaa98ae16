/**
 * How near a request came to its closest limit, from 60 % on, for the event and so for the correlator: who
 * stays just under a limit shows in no single refusal. Below 60 %, which is nearly always, nothing is made.
 */
import type { LimitUse } from '../core/observation.js';
import type { RequestFacts } from '../core/request.js';
import type { CheckResult } from './limiter-contract.js';
import type { Asked } from './policy.js';

const NEAR = 0.6;
const uses = new WeakMap<RequestFacts, LimitUse>();

/** Undefined below 60 % and where nothing was counted; `used` is above `limit` where that limit was over. */
export const nearOf = (facts: RequestFacts): LimitUse | undefined => uses.get(facts);

/** `results` in the order of `asked`: one group that was counted together. */
export function noteNear(
  facts: RequestFacts,
  asked: readonly Asked[],
  results: readonly CheckResult[],
): void {
  let closest: Asked | undefined;
  let most = NEAR;
  for (let at = 0; at < asked.length; at++) {
    const one = asked[at]!;
    const result = results[at];
    if (result === undefined || one.alarm) continue;
    const capacity = capacityOf(one);
    const over = result.allowed ? 0 : one.check.cost;
    const use = (capacity - result.remaining + over) / capacity;
    if (use < most) continue;
    most = use;
    closest = one;
  }
  if (closest === undefined) return;
  const known = uses.get(facts);
  if (known !== undefined && known.used / known.limit >= most) return;
  const { policy, by, check } = closest;
  const limit = capacityOf(closest);
  const used = Math.round(most * limit);
  uses.set(facts, { policy: policy.config.name, by, used, limit, windowMs: check.windowMs });
}

/** What `remaining` counts down from: buckets may hold another number than they get in a window. */
function capacityOf({ check }: Asked): number {
  const { algorithm, burst, limit } = check;
  return algorithm === 'token-bucket' || algorithm === 'leaky-bucket' ? burst : limit;
}
