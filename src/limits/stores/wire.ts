/**
 * Checks and answers as flat arrays of strings and numbers, small and quick to turn into JSON and back.
 * Checks: per request its number of checks, then seven entries each. Answers: four numbers each, the first
 * 0 where refused, else 1 and the delay; or one null per failed request.
 */
import { algorithms } from '../algorithms/index.js';
import type { AlgorithmName, Check, CheckResult } from '../limiter-contract.js';

const names: readonly AlgorithmName[] = algorithms.map((algorithm) => algorithm.name);
const indexes = new Map<AlgorithmName, number>(names.map((name, at) => [name, at]));
const CHECK_FIELDS = 7;
const ANSWER_FIELDS = 4;
/** The second field is algorithm + OPS_FROM × op. */
const OPS_FROM = 16;
const ops = ['take', 'peek', 'give'] as const;

export function packChecks(groups: readonly (readonly Check[])[]): (string | number)[] {
  const flat: (string | number)[] = [];
  for (const checks of groups) {
    flat.push(checks.length);
    for (const { key, algorithm, op, limit, windowMs, burst, cost, delayMaxMs = 0 } of checks) {
      const code = (indexes.get(algorithm) ?? 0) + (op === undefined ? 0 : OPS_FROM * ops.indexOf(op));
      flat.push(key, code, limit, windowMs, burst, cost, delayMaxMs);
    }
  }
  return flat;
}

/** Undefined where the array is not what `packChecks` makes. */
export function unpackChecks(flat: readonly unknown[]): Check[][] | undefined {
  const groups: Check[][] = [];
  for (let at = 0; at < flat.length;) {
    const count = flat[at++];
    if (typeof count !== 'number' || !(count >= 0) || at + count * CHECK_FIELDS > flat.length)
      return undefined;
    const checks: Check[] = [];
    for (let index = 0; index < count; index++, at += CHECK_FIELDS) {
      const check = unpackCheck(flat, at);
      if (check === undefined) return undefined;
      checks.push(check);
    }
    groups.push(checks);
  }
  return groups;
}

function unpackCheck(flat: readonly unknown[], at: number): Check | undefined {
  const key = flat[at];
  const code = Number(flat[at + 1]);
  const algorithm = names[code % OPS_FROM];
  const op = ops[Math.floor(code / OPS_FROM)];
  const [limit, windowMs, burst] = [flat[at + 2], flat[at + 3], flat[at + 4]];
  const [cost, delayMaxMs] = [flat[at + 5], flat[at + 6]];
  if (typeof key !== 'string' || algorithm === undefined || op === undefined) return undefined;
  if (typeof limit !== 'number' || typeof windowMs !== 'number') return undefined;
  if (typeof burst !== 'number' || typeof cost !== 'number') return undefined;
  if (typeof delayMaxMs !== 'number') return undefined;
  return { key, algorithm, op, limit, windowMs, burst, cost, delayMaxMs };
}

export function packAnswers(groups: readonly (readonly CheckResult[] | undefined)[]): (number | null)[] {
  const flat: (number | null)[] = [];
  for (const results of groups) {
    if (results === undefined) flat.push(null);
    else
      for (const { allowed, remaining, resetMs, retryAfterMs, delayMs = 0 } of results)
        flat.push(allowed ? 1 + delayMs : 0, remaining, resetMs, retryAfterMs);
  }
  return flat;
}

/**
 * `sizes`: how many checks each request had. Undefined for a request that failed or whose answer is cut
 * short.
 */
export function unpackAnswers(
  flat: readonly unknown[],
  sizes: readonly number[],
): (CheckResult[] | undefined)[] {
  let at = 0;
  return sizes.map((size) => {
    if (flat[at] === null) {
      at++;
      return undefined;
    }
    const results: CheckResult[] = [];
    for (let index = 0; index < size; index++, at += ANSWER_FIELDS) {
      const [allowed, remaining, resetMs, retryAfterMs] = [
        flat[at],
        flat[at + 1],
        flat[at + 2],
        flat[at + 3],
      ];
      if (typeof allowed !== 'number' || typeof remaining !== 'number') return undefined;
      if (typeof resetMs !== 'number' || typeof retryAfterMs !== 'number') return undefined;
      const answer = { allowed: allowed >= 1, remaining, resetMs, retryAfterMs };
      results.push(allowed > 1 ? { ...answer, delayMs: allowed - 1 } : answer);
    }
    return results;
  });
}
