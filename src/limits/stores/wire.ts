/**
 * Checks and answers as flat arrays of strings and numbers, small and quick to turn into JSON and back.
 * Checks: per request its number of checks, then six entries each. Answers: four numbers each, or one null
 * per failed request.
 */
import { algorithms } from '../algorithms/index.js';
import type { AlgorithmName, Check, CheckResult } from '../limiter-contract.js';

const names: readonly AlgorithmName[] = algorithms.map((algorithm) => algorithm.name);
const indexes = new Map<AlgorithmName, number>(names.map((name, at) => [name, at]));
const CHECK_FIELDS = 6;
const ANSWER_FIELDS = 4;

export function packChecks(groups: readonly (readonly Check[])[]): (string | number)[] {
  const flat: (string | number)[] = [];
  for (const checks of groups) {
    flat.push(checks.length);
    for (const { key, algorithm, limit, windowMs, burst, cost } of checks) {
      flat.push(key, indexes.get(algorithm) ?? 0, limit, windowMs, burst, cost);
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
  const algorithm = names[Number(flat[at + 1])];
  const [limit, windowMs, burst, cost] = [flat[at + 2], flat[at + 3], flat[at + 4], flat[at + 5]];
  if (typeof key !== 'string' || algorithm === undefined) return undefined;
  if (typeof limit !== 'number' || typeof windowMs !== 'number') return undefined;
  if (typeof burst !== 'number' || typeof cost !== 'number') return undefined;
  return { key, algorithm, limit, windowMs, burst, cost };
}

export function packAnswers(groups: readonly (readonly CheckResult[] | undefined)[]): (number | null)[] {
  const flat: (number | null)[] = [];
  for (const results of groups) {
    if (results === undefined) flat.push(null);
    else
      for (const { allowed, remaining, resetMs, retryAfterMs } of results)
        flat.push(allowed ? 1 : 0, remaining, resetMs, retryAfterMs);
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
      results.push({ allowed: allowed === 1, remaining, resetMs, retryAfterMs });
    }
    return results;
  });
}
