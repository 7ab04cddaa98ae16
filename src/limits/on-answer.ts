/**
 * Policies that count answers. The request was only peeked at, or (exact) taken in advance; once the origin's
 * status is known the count is taken, or given back, in the background: nobody waits for it, and what the
 * store cannot keep up with is dropped and counted. A refusal of the gate's own is no answer.
 */
import type { RequestFacts } from '../core/request.js';
import type { Check, CheckResult, CounterStore } from './limiter-contract.js';
import type { Asked } from './policy.js';

export type OnAnswerStats = Readonly<{ inFlight: number; dropped: number; failed: number }>;

export type OnAnswer = Readonly<{
  /** Remembers, of one group and its results, what the answer decides on. `local`: counted there alone. */
  owe(facts: RequestFacts, group: readonly Asked[], answer: Answer): void;
  /** `status` 0: the origin gave none. */
  answered(facts: RequestFacts, status: number): void;
  stats(): OnAnswerStats;
}>;

type Answer = Readonly<{ results: readonly CheckResult[]; local: boolean }>;
type Owed = Readonly<{ asked: Asked; local: boolean }>;

export type OnAnswerDeps = Readonly<{
  store: CounterStore;
  /** Counts in the stand-in too, so that it stays warm. */
  countLocally: (asked: Asked) => void;
  inFlightMax: number;
}>;

export function createOnAnswer({ store, countLocally, inFlightMax }: OnAnswerDeps): OnAnswer {
  // By the request itself: an exchange that never ends owes nothing once it is gone.
  const owing = new WeakMap<RequestFacts, Owed[]>();
  const counts = { inFlight: 0, dropped: 0, failed: 0 };

  async function inBackground(pending: Promise<unknown>): Promise<void> {
    counts.inFlight++;
    try {
      await pending;
    } catch {
      counts.failed++;
    } finally {
      counts.inFlight--;
    }
  }

  function send({ asked, local }: Owed, op: 'take' | 'give'): void {
    const check: Check = { ...asked.check, op };
    if (asked.policy.onFailure === 'local') countLocally({ ...asked, check });
    if (local) return;
    if (counts.inFlight >= inFlightMax) {
      counts.dropped++;
      return;
    }
    try {
      // One call each: a limit that is used up must not keep another from counting. Stores join the calls of
      // one turn of the event loop into one message.
      const pending = store.checkAll([check]);
      if (pending instanceof Promise) void inBackground(pending);
    } catch {
      counts.failed++;
    }
  }

  return {
    owe(facts, group, { results, local }) {
      const counted = results.every((result) => result.allowed);
      for (const asked of group) {
        if (asked.policy.countOn === undefined || asked.alarm) continue;
        if (!counted && asked.check.op !== 'peek') continue;
        const known = owing.get(facts);
        if (known === undefined) owing.set(facts, [{ asked, local }]);
        else known.push({ asked, local });
      }
    },
    answered(facts, status) {
      const owed = owing.get(facts);
      if (owed === undefined) return;
      owing.delete(facts);
      for (const one of owed) {
        const counts = one.asked.policy.countOn?.(status) === true;
        const taken = one.asked.check.op !== 'peek';
        if (counts && !taken) send(one, 'take');
        else if (!counts && taken) send(one, 'give');
      }
    },
    stats: () => ({ ...counts }),
  };
}
