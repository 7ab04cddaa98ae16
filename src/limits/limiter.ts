/**
 * The limits engine: which policies count this request, by whom, and whether one of them is used up. Those
 * that refuse are asked in one call, all or nothing; what is merely observed is asked beside it, so that an
 * alarm that has gone off never stops the counting.
 */
import type { Clock } from '../core/clock.js';
import { Fault } from '../core/errors.js';
import { NO_FINDINGS, type Finding } from '../core/finding.js';
import type { FieldReader, Identities } from '../core/identity.js';
import type { RequestFacts } from '../core/request.js';
import type { LimitsConfig } from './config.js';
import { effectivePolicies } from './defaults.js';
import { findingsFor, refusedUnread, stateNote, UNAVAILABLE_ID } from './findings.js';
import type { Check, CheckResult, CounterStore, Limiter } from './limiter-contract.js';
import { foldPath, type Target } from './match.js';
import { ask, type Asked, compilePolicy, waitsForBody } from './policy.js';
import { memoryStore } from './stores/memory.js';

const LOCAL_KEYS_MAX = 20_000;

export type LimiterDeps = Readonly<{
  store: CounterStore;
  identities: Identities;
  clock: Clock;
  /**
   * How many workers share the limits: while the store is away each holds limit / share, rounded up. From 1.
   */
  share?: number;
  /** Told each time the store could not answer. */
  onStoreFailure?: (fault: unknown) => void;
  baseDir?: string;
}>;

/**
 * The limiter of one worker and one config snapshot. `judge` answers findings; it neither throws nor rejects.
 */
export function createLimiter(config: LimitsConfig, deps: LimiterDeps): Limiter {
  const { store, identities } = deps;
  const policies = config.enabled
    ? effectivePolicies(config.policies).map((policy) => compilePolicy(policy, config, identities))
    : [];
  const standIn = createStandIn(config, deps);

  function gather(facts: RequestFacts, field: FieldReader | undefined): Asked[] | undefined {
    let asked: Asked[] | undefined;
    const target: Target = { method: facts.method, host: facts.host, path: foldPath(facts.cleanPath) };
    for (const policy of policies) {
      if (field !== undefined && !policy.readsBody) continue;
      if (!policy.matches(target)) continue;
      // Exactly the policies that the head pass left open are the body pass's.
      if (policy.readsBody && waitsForBody(policy, facts, identities) !== (field !== undefined)) continue;
      ask(policy, { facts, field, identities }, (asked ??= []));
    }
    return asked;
  }

  function conclude(
    asked: Groups,
    answers: readonly (readonly CheckResult[])[],
    from: 'head' | 'body',
  ): readonly Finding[] {
    asked.forEach((group, at) => standIn.warm(group, answers[at] ?? []));
    const findings = asked.flatMap((group, at) => findingsFor(group, answers[at] ?? [], config.points));
    const note = config.headers === 'always' ? stateNote(asked.flat(), answers.flat(), from) : undefined;
    if (note !== undefined) return [...onceCharged(findings), note];
    return findings.length === 0 ? NO_FINDINGS : onceCharged(findings);
  }

  async function later(
    asked: Groups,
    pending: readonly (CheckResult[] | Promise<CheckResult[]>)[],
    from: 'head' | 'body',
  ) {
    try {
      return conclude(asked, await Promise.all(pending), from);
    } catch (fault) {
      return standIn.judge(asked, fault);
    }
  }

  return {
    judge(facts, field) {
      const asked = gather(facts, field);
      if (asked === undefined) return NO_FINDINGS;
      const grouped = groups(asked);
      const from = field === undefined ? 'head' : 'body';
      try {
        const answers = grouped.map((group) => store.checkAll(group.map(({ check }) => check)));
        return answers.every((answer): answer is CheckResult[] => !(answer instanceof Promise))
          ? conclude(grouped, answers, from)
          : later(grouped, answers, from);
      } catch (fault) {
        return standIn.judge(grouped, fault);
      }
    },
  };
}

/**
 * What holds while the store is away. The local store counts along with every request that passes, so that it
 * is warm when it is needed; each worker holds limit / share, rounded up.
 */
function createStandIn(
  config: LimitsConfig,
  { clock, share = 1, onStoreFailure = () => undefined }: LimiterDeps,
) {
  const local = memoryStore({ clock, keysMax: LOCAL_KEYS_MAX });
  const portion = (limit: number, cost: number): number => Math.max(cost, Math.ceil(limit / share));
  const shared = (check: Check): Check => {
    if (share === 1) return check;
    return { ...check, limit: portion(check.limit, check.cost), burst: portion(check.burst, check.cost) };
  };
  return {
    warm(asked: readonly Asked[], results: readonly CheckResult[]): void {
      if (!results.every((result) => result.allowed)) return;
      for (const { policy, check, alarm } of asked) {
        if (policy.onFailure === 'local' && !alarm) local.checkAll([shared(check)]);
      }
    },
    judge(asked: Groups, fault: unknown): readonly Finding[] {
      onStoreFailure(fault);
      const all = asked.flat();
      const findings: Finding[] = [];
      for (const group of groups(all.filter(({ policy, alarm }) => policy.onFailure === 'local' && !alarm))) {
        findings.push(
          ...findingsFor(group, local.checkAll(group.map(({ check }) => shared(check))), config.points),
        );
      }
      const closed = new Set(
        all.filter(({ policy }) => policy.onFailure === 'refuse').map(({ policy }) => policy),
      );
      for (const policy of closed) findings.push(refusedUnread(policy, config.points));
      const code = fault instanceof Fault ? fault.code : 'STORE_FAILED';
      const message = `The counter store did not answer (${code}); limits follow their onFailure.`;
      return [...onceCharged(findings), { id: UNAVAILABLE_ID, kind: 'note', points: 0, message }];
    },
  };
}

type Groups = readonly (readonly Asked[])[];

/** What refuses goes together; each observed policy and each alarm is on its own. */
function groups(asked: readonly Asked[]): Groups {
  const enforced: Asked[] = [];
  const made: (readonly Asked[])[] = [];
  for (const one of asked) {
    if (one.alarm || one.policy.config.observe) made.push([one]);
    else enforced.push(one);
  }
  return enforced.length === 0 ? made : [enforced, ...made];
}

/** The limit with the longest wait speaks first and bears the points; the others are told without. */
function onceCharged(findings: readonly Finding[]): Finding[] {
  const sorted = [...findings].sort((a, b) => waitOf(b) - waitOf(a));
  let charged = false;
  return sorted.map((finding) => {
    if (finding.kind !== 'limit' || finding.observed === true) return finding;
    if (charged) return { ...finding, points: 0 };
    charged = true;
    return finding;
  });
}

function waitOf(finding: Finding): number {
  return finding.kind !== 'limit' || finding.observed === true ? -1 : (finding.limit?.retryAfterMs ?? 0);
}
