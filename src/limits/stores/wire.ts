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

/** Begins with the batch's number. */
export function packChecks(
  number: number,
  groups: readonly Readonly<{ checks: readonly Check[] }>[],
): (string | number)[] {
  const flat: (string | number)[] = [number];
  for (const { checks } of groups) {
    flat.push(checks.length);
    for (const { key, algorithm, op, limit, windowMs, burst, cost, delayMaxMs = 0 } of checks) {
      const code = (indexes.get(algorithm) ?? 0) + (op === undefined ? 0 : OPS_FROM * ops.indexOf(op));
      flat.push(key, code, limit, windowMs, burst, cost, delayMaxMs);
    }
  }
  return flat;
}

/** Behind the number; undefined where the array is not what `packChecks` makes. */
export function unpackChecks(flat: readonly unknown[]): Check[][] | undefined {
  const groups: Check[][] = [];
  for (let at = 1; at < flat.length;) {
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
  const limit = flat[at + 2];
  const windowMs = flat[at + 3];
  const burst = flat[at + 4];
  const cost = flat[at + 5];
  const delayMaxMs = flat[at + 6];
  if (typeof key !== 'string' || algorithm === undefined || op === undefined) return undefined;
  if (typeof limit !== 'number' || typeof windowMs !== 'number') return undefined;
  if (typeof burst !== 'number' || typeof cost !== 'number') return undefined;
  if (typeof delayMaxMs !== 'number') return undefined;
  return { key, algorithm, op, limit, windowMs, burst, cost, delayMaxMs };
}

/** Begins with the number of the batch that is answered. */
export function packAnswers(
  number: number,
  groups: readonly (readonly CheckResult[] | undefined)[],
): (number | null)[] {
  const flat: (number | null)[] = [number];
  for (const results of groups) {
    if (results === undefined) flat.push(null);
    else
      for (const { allowed, remaining, resetMs, retryAfterMs, delayMs = 0 } of results)
        flat.push(allowed ? 1 + delayMs : 0, remaining, resetMs, retryAfterMs);
  }
  return flat;
}

/**
 * Calls `take` for each of `groups` in turn, which tell how many checks each had; undefined for a request
 * that failed or whose answer is cut short.
 */
export function unpackAnswers<Group extends Readonly<{ checks: readonly Check[] }>>(
  flat: readonly unknown[],
  groups: readonly Group[],
  take: (group: Group, results: CheckResult[] | undefined) => void,
): void {
  let at = 1;
  for (const group of groups) {
    if (flat[at] === null) {
      at++;
      take(group, undefined);
      continue;
    }
    let results: CheckResult[] | undefined = [];
    for (let left = group.checks.length; left > 0; left--, at += ANSWER_FIELDS) {
      const result = unpackAnswer(flat, at);
      if (result === undefined) results = undefined;
      else results?.push(result);
    }
    take(group, results);
  }
}

function unpackAnswer(flat: readonly unknown[], at: number): CheckResult | undefined {
  const allowed = flat[at];
  const remaining = flat[at + 1];
  const resetMs = flat[at + 2];
  const retryAfterMs = flat[at + 3];
  if (typeof allowed !== 'number' || typeof remaining !== 'number') return undefined;
  if (typeof resetMs !== 'number' || typeof retryAfterMs !== 'number') return undefined;
  if (allowed <= 1) return { allowed: allowed === 1, remaining, resetMs, retryAfterMs };
  return { allowed: true, remaining, resetMs, retryAfterMs, delayMs: allowed - 1 };
}
