/** What an answer becomes when another check of the same request was refused: nothing counted, no delay. */
import type { Check, CheckResult } from './limiter-contract.js';

/** `result` of a check that would have been counted had the request not been refused by another one. */
export function uncounted(result: CheckResult, check: Check | undefined): CheckResult {
  if (!result.allowed || check === undefined || check.op === 'give' || check.op === 'peek') return result;
  const { allowed, remaining, resetMs, retryAfterMs } = result;
  return { allowed, remaining: remaining + check.cost, resetMs, retryAfterMs };
}
