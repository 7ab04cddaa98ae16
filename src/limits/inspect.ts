/**
 * How the limits of one identity stand, for operators: the same policies and keys as for a request, asked
 * without counting; and setting them back. Only what the identity given can be counted by is shown.
 */
import { foldPath } from '../core/fold-path.js';
import type { FieldReader, Identities, IdentityName } from '../core/identity.js';
import type { RequestFacts } from '../core/request.js';
import type { LimitsConfig } from './config.js';
import { effectivePolicies } from './defaults.js';
import type { AlgorithmName, Check, CheckResult, CounterStore } from './limiter-contract.js';
import { ask, type Asked, compilePolicy, type Policy } from './policy.js';

export type LimitsOf = Readonly<{
  facts: RequestFacts;
  field: FieldReader;
  /** What the operator named; policies that count by anything else are left out. */
  given: ReadonlySet<IdentityName>;
  /** One policy only. */
  policy?: string | undefined;
  /** True: only policies that count this method, host and path; else whatever they match. */
  matching: boolean;
}>;

export type LimitRow = Readonly<{
  policy: string;
  /** The identity in words: `ip`, `session`, `ip+path`. */
  by: string;
  /** A policy's own limit, the wider one of its address or network, or its alarm, which refuses nobody. */
  role: 'limit' | 'address' | 'network' | 'alarm';
  algorithm: AlgorithmName;
  limit: number;
  windowMs: number;
  used: number;
  remaining: number;
  /** Milliseconds until all of it is back; 0 where nothing is used. */
  resetMs: number;
  /** Milliseconds until the next request passes; 0 where it would now. */
  retryAfterMs: number;
  observe: boolean;
}>;

export type LimitsInspector = Readonly<{
  /** Names of the policies in force. */
  policies: readonly string[];
  /** Rejects where the store does not answer. */
  show(of: LimitsOf): Promise<LimitRow[]>;
  /** The rows that were set back, as they stood. */
  reset(of: LimitsOf): Promise<LimitRow[]>;
}>;

/**
 * `store`: the one that holds the counters; what caches hold beside it is a moment old at most. Limits are
 * the configured ones: an address that many share may have more.
 */
export function createInspector(
  config: LimitsConfig,
  { store, identities }: Readonly<{ store: CounterStore; identities: Identities }>,
): LimitsInspector {
  const policies = config.enabled
    ? effectivePolicies(config.policies).map((policy) => compilePolicy(policy, config, identities))
    : [];

  const asked = (of: LimitsOf): Asked[] => {
    const into: Asked[] = [];
    for (const policy of policies) {
      if (of.policy !== undefined && policy.config.name !== of.policy) continue;
      if (of.matching && !counts(policy, of.facts)) continue;
      ask(policy, { facts: of.facts, field: of.field, identities, shared: 1 }, into);
    }
    return into.filter(({ by }) => by.split('+').every((name) => of.given.has(name as IdentityName)));
  };
  const rows = async (all: readonly Asked[]): Promise<LimitRow[]> =>
    Promise.all(
      all.map(async (one) => {
        const [result] = await store.checkAll([{ ...one.check, op: 'peek' }]);
        return rowOf(one, result);
      }),
    );

  return {
    policies: policies.map(({ config: { name } }) => name),
    show: (of) => rows(asked(of)),
    async reset(of) {
      const all = asked(of);
      const before = await rows(all);
      await forget(store, all.map(({ check }) => check));
      return before;
    },
  };
}

function counts(policy: Policy, { site, method, host, headers, cleanPath }: RequestFacts): boolean {
  return policy.matches({ site, method, host, headers, path: foldPath(cleanPath) });
}

async function forget(store: CounterStore, checks: readonly Check[]): Promise<void> {
  if (store.forget !== undefined) {
    await store.forget(checks.map(({ key }) => key));
    return;
  }
  await Promise.all(
    checks.map((check) => {
      const cost = Math.max(check.limit, check.burst);
      return store.checkAll([{ ...check, op: 'give', cost }]);
    }),
  );
}

function rowOf(one: Asked, result: CheckResult | undefined): LimitRow {
  const { policy, by, check } = one;
  const isBucket = check.algorithm === 'token-bucket' || check.algorithm === 'leaky-bucket';
  const capacity = isBucket ? check.burst : check.limit;
  // A peek answers as if it had counted.
  const after = result?.remaining ?? 0;
  const remaining = Math.min(capacity, result?.allowed === true ? after + check.cost : after);
  const used = capacity - remaining;
  return {
    policy: policy.config.name,
    by,
    role: roleOf(one),
    algorithm: check.algorithm,
    limit: capacity,
    windowMs: check.windowMs,
    used,
    remaining,
    resetMs: used === 0 ? 0 : (result?.resetMs ?? 0),
    retryAfterMs: result?.retryAfterMs ?? 0,
    observe: policy.config.observe,
  };
}

function roleOf({ policy, by, check, alarm }: Asked): LimitRow['role'] {
  if (alarm) return 'alarm';
  if (by.includes('wideIp')) return 'network';
  const { address } = policy;
  return address !== undefined && check.key.endsWith(address.parts.suffix) ? 'address' : 'limit';
}
