/**
 * What one process knows of each hot key. `granted`, the most it may pass and not have settled, is
 * floor(min(remaining, overshoot × limit) / peers), set anew by each answer of the store; the second term
 * holds in every process at any time, hence the bound, whatever order the answers come in. What the store has
 * no room for at the settlement is owed: nothing passes until the next free allowance has paid it.
 */
import type { Check, CheckResult, CounterStore } from '../limiter-contract.js';
import type { HotKeyCacheOptions, HotKeyCacheStats } from './hot-key-cache.js';

/** Keys counted to find the hot ones, per key held. */
const SEEN_PER_KEY = 10;
/** After so many intervals without use a key is forgotten; without an answer, what was granted. */
const STALE_INTERVALS = 3;

type Hot = {
  /** As last asked; the settlement's own is made from it. */
  check: Check;
  granted: number;
  /** Passed here, not yet sent. */
  open: number;
  /** On its way to the store: passed here, or asked of it directly. */
  sent: number;
  /** Reserved by requests that wait for their other checks. */
  held: number;
  /** Of the latest answer. */
  remaining: number;
  resetAtMs: number;
  answeredMs: number;
  /** Number of the call whose answer was the latest. */
  ticket: number;
  usedMs: number;
  refusal: Readonly<{ cost: number; untilMs: number; retryAtMs: number }> | undefined;
  /** True while the store had no room for all that was passed here. */
  owing: boolean;
};

/** One call to the store: its number, and the entries that its answers are for, by check. */
type Ticket = Readonly<{ number: number; entries: readonly (Hot | undefined)[] }>;

export type HotKeys = ReturnType<typeof createHotKeys>;

export const isCacheable = (check: Check): boolean =>
  check.cached === true &&
  (check.op ?? 'take') === 'take' &&
  check.algorithm !== 'sliding-log' &&
  (check.delayMaxMs ?? 0) === 0;

export function createHotKeys(store: CounterStore, options: HotKeyCacheOptions) {
  const { clock, peers, syncMs, hotAfter, keysMax, overshoot } = options;
  const hot = new Map<string, Hot>();
  const counts = { local: 0, settled: 0, lost: 0, full: 0 };
  let seen = new Map<string, number>();
  let tickets = 0;
  const staleMs = syncMs * STALE_INTERVALS;
  let dueMs = clock.nowMs() + syncMs;

  const grant = (entry: Hot): number =>
    Math.max(0, Math.floor(Math.min(entry.remaining, overshoot * capacity(entry.check)) / peers()));
  const used = (entry: Hot): number => entry.open + entry.sent + entry.held;

  function answer(entry: Hot, result: CheckResult, ticket: number): void {
    if (ticket < entry.ticket) return;
    const nowMs = clock.nowMs();
    entry.ticket = ticket;
    entry.remaining = result.remaining;
    entry.resetAtMs = nowMs + result.resetMs;
    entry.answeredMs = nowMs;
    entry.granted = grant(entry);
  }

  function refuse(entry: Hot, cost: number, result: CheckResult): void {
    const nowMs = clock.nowMs();
    entry.granted = 0;
    entry.refusal = { cost, untilMs: nowMs + syncMs, retryAtMs: nowMs + result.retryAfterMs };
  }

  /** After a failure only the store can tell. */
  function distrust(entry: Hot): void {
    entry.granted = 0;
    entry.refusal = undefined;
  }

  /** One call to the store; rejects where it fails. */
  async function take(entry: Hot, cost: number): Promise<CheckResult> {
    counts.settled++;
    const ticket = ++tickets;
    const [result] = await store.checkAll([{ ...entry.check, cost }]);
    if (result === undefined) throw new Error('the store answered without a result');
    answer(entry, result, ticket);
    return result;
  }

  /** Brings what was counted here to the store. Where it has less room than that, the room is taken. */
  async function settle(entry: Hot): Promise<void> {
    const cost = entry.open;
    if (cost === 0) return;
    entry.open = 0;
    entry.sent += cost;
    let owed = cost;
    try {
      const result = await take(entry, cost);
      if (result.allowed) owed = 0;
      else {
        const room = Math.min(cost, Math.floor(result.remaining));
        refuse(entry, 1, result);
        entry.owing = true;
        if (room > 0 && (await take(entry, room)).allowed) owed -= room;
      }
    } catch (fault) {
      // It may have been counted or not: sent again it could count twice.
      counts.lost += cost;
      owed = 0;
      distrust(entry);
      options.onFault?.(fault);
    }
    entry.sent -= cost;
    entry.open += owed;
    entry.owing = owed > 0;
  }

  async function settleAll(): Promise<void> {
    await Promise.all([...hot.values()].map(settle));
  }

  function tick(): void {
    const nowMs = clock.nowMs();
    dueMs = nowMs + syncMs;
    seen = new Map();
    for (const [key, entry] of hot) {
      if (entry.open > 0) void settle(entry);
      else if (entry.sent === 0 && entry.held === 0 && nowMs - entry.usedMs >= staleMs) hot.delete(key);
    }
  }

  /** The entry of a key that is hot now, made where this call makes it hot. */
  function entryOf(check: Check): Hot | undefined {
    const entry = hot.get(check.key);
    if (entry !== undefined) return entry;
    const times = (seen.get(check.key) ?? 0) + 1;
    if (times > 1 || seen.size < keysMax * SEEN_PER_KEY) seen.set(check.key, times);
    if (times <= hotAfter) return undefined;
    if (hot.size >= keysMax) {
      counts.full++;
      return undefined;
    }
    const made = coldEntry(check, clock.nowMs(), tickets + 1);
    hot.set(check.key, made);
    return made;
  }

  /** Undefined: the store has to say. An allowed answer is reserved until `conclude`. */
  function judge(check: Check): CheckResult | undefined {
    if (!isCacheable(check)) return undefined;
    const entry = entryOf(check);
    if (entry === undefined) return undefined;
    const nowMs = clock.nowMs();
    entry.usedMs = nowMs;
    entry.check = check;
    const resetMs = Math.max(1, entry.resetAtMs - nowMs);
    if (isRefused(entry, check.cost, nowMs)) {
      counts.local++;
      const retryAfterMs = Math.max(1, (entry.refusal?.retryAtMs ?? 0) - nowMs);
      return { allowed: false, remaining: left(entry), resetMs, retryAfterMs };
    }
    const fresh = nowMs - entry.answeredMs < staleMs;
    if (!fresh || used(entry) + check.cost > entry.granted) return undefined;
    counts.local++;
    entry.held += check.cost;
    return { allowed: true, remaining: left(entry), resetMs, retryAfterMs: 0 };
  }

  /** A refusal holds until its wait is over; one request an interval asks whether it still does. */
  function isRefused(entry: Hot, cost: number, nowMs: number): boolean {
    const { refusal } = entry;
    if (entry.owing) return true;
    if (refusal === undefined || cost < refusal.cost || nowMs >= refusal.retryAtMs) return false;
    if (nowMs < refusal.untilMs) return true;
    entry.refusal = { ...refusal, untilMs: nowMs + syncMs };
    return false;
  }

  /** What the others have taken meanwhile is not known here. */
  const left = (entry: Hot): number => Math.max(0, entry.remaining - used(entry));

  return {
    judge,
    settleAll,
    tick,
    tickIfDue(): void {
      if (clock.nowMs() >= dueMs) tick();
    },
    holdsAny: (checks: readonly Check[]): boolean => hot.size > 0 && checks.some(({ key }) => hot.has(key)),
    /** Ends a reservation: counted, or as if it had never been. */
    conclude({ key, cost }: Check, pass: boolean): void {
      const entry = hot.get(key);
      if (entry === undefined) return;
      entry.held = Math.max(0, entry.held - cost);
      if (pass) entry.open += cost;
    },
    /** Sends ahead what is open for the keys the store is about to be asked about. */
    beforeAsking(checks: readonly Check[]): Ticket {
      const entries = checks.map((check) => {
        const entry = hot.get(check.key);
        if (entry === undefined) return undefined;
        if (check.op === 'give') entry.refusal = undefined;
        void settle(entry);
        if (!isCacheable(check)) return undefined;
        entry.sent += check.cost;
        return entry;
      });
      return { number: ++tickets, entries };
    },
    /** The store's answers to what was asked with `ticket`; undefined where it gave none. */
    learn(checks: readonly Check[], results: readonly CheckResult[] | undefined, ticket: Ticket): void {
      checks.forEach((check, at) => {
        const entry = ticket.entries[at];
        if (entry === undefined) return;
        entry.sent -= check.cost;
        const result = results?.[at];
        if (result === undefined) return distrust(entry);
        answer(entry, result, ticket.number);
        if (!result.allowed) refuse(entry, check.cost, result);
        else if (check.cost >= (entry.refusal?.cost ?? 0) && !entry.owing) entry.refusal = undefined;
      });
    },
    /** For a check that nobody was asked about, since another one refused: nothing was counted. */
    guess(check: Check): CheckResult {
      const entry = hot.get(check.key);
      const remaining = entry === undefined ? capacity(check) : left(entry);
      return { allowed: true, remaining, resetMs: check.windowMs, retryAfterMs: 0 };
    },
    /** Forgets keys, and what they owe. */
    drop(names: readonly string[]): void {
      for (const name of names) hot.delete(name);
    },
    stats: (): HotKeyCacheStats => {
      let owed = 0;
      for (const entry of hot.values()) if (entry.owing) owed += entry.open;
      return { ...counts, keys: hot.size, owed };
    },
  };
}

const isBucket = ({ algorithm }: Check): boolean =>
  algorithm === 'token-bucket' || algorithm === 'leaky-bucket';

/** The most that can ever be free at once. */
const capacity = (check: Check): number => (isBucket(check) ? check.burst : check.limit);

/** Answers to calls from before `ticket` do not know of all that was under way then. */
function coldEntry(check: Check, nowMs: number, ticket: number): Hot {
  return {
    check,
    granted: 0,
    open: 0,
    sent: 0,
    held: 0,
    remaining: 0,
    resetAtMs: nowMs + check.windowMs,
    answeredMs: 0,
    ticket,
    usedMs: nowMs,
    refusal: undefined,
    owing: false,
  };
}
