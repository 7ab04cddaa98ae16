/**
 * The limits engine: which policies count this request, by whom, and whether one of them is used up. Those
 * that refuse are asked in one call, all or nothing; what is merely observed is asked beside it, so that an
 * alarm that has gone off never stops the counting.
 */
import type { Clock } from '../core/clock.js';
import { Fault } from '../core/errors.js';
import { NO_FINDINGS, type Finding } from '../core/finding.js';
import { foldPath } from '../core/fold-path.js';
import type { FieldReader, Identities } from '../core/identity.js';
import type { RequestFacts } from '../core/request.js';
import type { LimitsConfig } from './config.js';
import { effectivePolicies } from './defaults.js';
import { findingsFor, refusedUnread, stateNote, UNAVAILABLE_ID } from './findings.js';
import type { Answered, Check, CheckResult, CounterStore, Limiter } from './limiter-contract.js';
import type { Target } from './match.js';
import { noteNear } from './near.js';
import { createOnAnswer } from './on-answer.js';
import { ask, type Asked, canWiden, compilePolicy, waitsForBody } from './policy.js';
import { createSharedAddresses, type AddressBook } from './shared-address.js';
import { nothingLeft, type Share, shareOf, WHOLE } from './share.js';
import { memoryStore, type MemoryStore } from './stores/memory.js';

/** Redis may be away for long; the supervisor is so only while it is being replaced. */
const LOCAL_KEYS_MAX = { redis: 20_000, supervisor: 5_000 } as const;

export type LimiterDeps = Readonly<{
  store: CounterStore;
  identities: Identities;
  clock: Clock;
  /** Who shares the limits now: while the store is away each holds its part. Absent: nobody else. */
  share?: () => Share;
  /** Told each time the store could not answer. */
  onStoreFailure?: (fault: unknown) => void;
  baseDir?: string;
  /** What the last config's limiter knew of shared addresses. */
  addressBook?: AddressBook;
  /** What the last config's limiter had counted along, for while the store is away. */
  standIn?: MemoryStore;
}>;

/** Outlives the config: policies that stay the same stay warm over a reload. */
export function createStandInStore(
  clock: Clock,
  stoodInFor: keyof typeof LOCAL_KEYS_MAX = 'redis',
): MemoryStore {
  return memoryStore({ clock, keysMax: LOCAL_KEYS_MAX[stoodInFor] });
}

/**
 * The limiter of one worker and one config snapshot. `judge` answers findings; it neither throws nor rejects.
 */
export function createLimiter(config: LimitsConfig, deps: LimiterDeps): Limiter {
  const { store, identities } = deps;
  const policies = config.enabled
    ? effectivePolicies(config.policies).map((policy) => compilePolicy(policy, config, identities))
    : [];
  const standIn = createStandIn(config, deps);
  const onAnswer = createOnAnswer({
    store,
    countLocally: standIn.count,
    inFlightMax: config.backgroundMax,
  });
  const shared = createSharedAddresses(config.sharedAddress, deps.clock, deps.addressBook);
  const counting = policies.some(({ countOn }) => countOn !== undefined);
  const widens = config.sharedAddress.factorMax > 1 && policies.some(canWiden);

  function gather(facts: RequestFacts, field: FieldReader | undefined): Asked[] | undefined {
    let asked: Asked[] | undefined;
    const { site, method, host, headers } = facts;
    const target: Target = { site, method, host, path: foldPath(facts.cleanPath), headers };
    const factor = widens ? shared.factor(facts.client.key) : 1;
    for (const policy of policies) {
      if (field !== undefined && !policy.readsBody) continue;
      if (!policy.matches(target)) continue;
      // Exactly the policies that the head pass left open are the body pass's.
      if (policy.readsBody && waitsForBody(policy, facts, identities) !== (field !== undefined)) continue;
      ask(policy, { facts, field, identities, shared: factor }, (asked ??= []));
    }
    return asked;
  }

  type Results = readonly (readonly CheckResult[])[];
  type Pending = readonly (CheckResult[] | Promise<CheckResult[]>)[];
  type Judged = Readonly<{ facts: RequestFacts; asked: Groups; from: 'head' | 'body' }>;

  function conclude({ facts, asked, from }: Judged, answers: Results): readonly Finding[] {
    const findings: Finding[] = [];
    asked.forEach((group, at) => {
      const results = answers[at] ?? [];
      standIn.warm(group, results);
      noteNear(facts, group, results);
      if (counting) onAnswer.owe(facts, group, { results, local: false });
      findings.push(...findingsFor(group, results, config.points));
    });
    const note = config.headers === 'always' ? stateNote(asked.flat(), answers.flat(), from) : undefined;
    if (note !== undefined) return [...onceCharged(findings), note];
    return findings.length === 0 ? NO_FINDINGS : onceCharged(findings);
  }

  function withoutStore({ facts, asked }: Judged, fault: unknown): readonly Finding[] {
    return standIn.judge(asked, fault, (group, results) => {
      onAnswer.owe(facts, group, { results, local: true });
    });
  }

  function later(judged: Judged, pending: Pending): Promise<readonly Finding[]> {
    const settled = (answers: Results): readonly Finding[] => {
      try {
        return conclude(judged, answers);
      } catch (fault) {
        return withoutStore(judged, fault);
      }
    };
    const failed = (fault: unknown): readonly Finding[] => withoutStore(judged, fault);
    const [only] = pending;
    // Mostly one call: a promise for all of one costs as much as the call.
    if (pending.length === 1 && only instanceof Promise)
      return only.then((results) => settled([results]), failed);
    return Promise.all(pending).then(settled, failed);
  }

  /** Who the origin has accepted behind an address, so that its limits can be wide enough for all of them. */
  function learn(facts: RequestFacts, { status, setCookies }: Answered): void {
    const { key } = facts.client;
    for (const cookie of setCookies) {
      const session = identities.issued(cookie);
      if (session !== undefined) shared.issued(key, session);
    }
    if (status !== 101 && (status < 200 || status >= 400)) return;
    const who = identities.read('session', facts, undefined) ?? identities.read('apiKey', facts, undefined);
    if (who !== undefined) shared.answered(key, who);
  }

  return {
    judge(facts, field) {
      const asked = gather(facts, field);
      if (asked === undefined) return NO_FINDINGS;
      const grouped = groups(asked);
      const judged: Judged = { facts, asked: grouped, from: field === undefined ? 'head' : 'body' };
      try {
        const answers = grouped.map((group) => store.checkAll(group.map(({ check }) => check)));
        return answers.every((answer): answer is CheckResult[] => !(answer instanceof Promise))
          ? conclude(judged, answers)
          : later(judged, answers);
      } catch (fault) {
        return withoutStore(judged, fault);
      }
    },
    answered(facts, answer) {
      if (counting) onAnswer.answered(facts, answer.status);
      if (widens) learn(facts, answer);
    },
    stats: () => ({ background: onAnswer.stats(), shared: shared.stats() }),
  };
}

/**
 * What holds while the store is away. The local store counts along with every request that passes, so that it
 * is warm when it is needed; each worker holds its share.
 */
function createStandIn(
  config: LimitsConfig,
  { clock, standIn, share = () => WHOLE, onStoreFailure = () => undefined }: LimiterDeps,
) {
  const local = standIn ?? createStandInStore(clock);
  const shared = ({ check, policy }: Asked): Check | undefined =>
    shareOf(check, policy.config.exact, share());
  /** All or nothing here too. */
  const take = (asked: readonly Asked[]): readonly CheckResult[] => {
    const checks = asked.map(shared);
    const whole = checks.filter((check) => check !== undefined);
    if (whole.length === checks.length) return local.checkAll(whole);
    const peeked = whole.map((check): Check => ({ ...check, op: 'peek' }));
    const left = local.checkAll(peeked)[Symbol.iterator]();
    return asked.map(({ check }, at) => (checks[at] === undefined ? nothingLeft(check) : left.next().value!));
  };
  return {
    /** What an answer has decided: taken or given back. */
    count: (asked: Asked): void => void take([asked]),
    warm(asked: readonly Asked[], results: readonly CheckResult[]): void {
      if (!results.every((result) => result.allowed)) return;
      for (const one of asked) {
        if (one.policy.onFailure !== 'local' || one.alarm) continue;
        const check = shared(one);
        if (check !== undefined) local.checkAll([check]);
      }
    },
    /** `owe`: told what was counted here. */
    judge(
      asked: Groups,
      fault: unknown,
      owe: (group: readonly Asked[], results: readonly CheckResult[]) => void,
    ): readonly Finding[] {
      onStoreFailure(fault);
      const all = asked.flat();
      const findings: Finding[] = [];
      for (const group of groups(all.filter(({ policy, alarm }) => policy.onFailure === 'local' && !alarm))) {
        const results = take(group);
        owe(group, results);
        findings.push(...findingsFor(group, results, config.points));
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
