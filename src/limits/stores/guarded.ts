/**
 * A store that answers or fails within a deadline, whatever the store behind it does. Where that one fails
 * too often it is left alone, and only probes ask for it until it answers again; meanwhile every call is
 * refused at once, without a wait. An answer after its deadline is dropped: what it counted stays counted,
 * which errs on the side of counting a request twice, never of forgetting one.
 */
import { Fault, type FaultCode } from '../../core/errors.js';
import type { Check, CheckResult, CounterStore } from '../limiter-contract.js';
import { createBreaker, type BreakerOptions, type BreakerState } from './breaker.js';

export type GuardOptions = Readonly<{
  /** Longest wait for an answer, from 1 millisecond. */
  deadlineMs: number;
  /** Most calls the store behind has not answered, those past their deadline included. */
  inFlightMax: number;
  breaker: BreakerOptions & Readonly<{ probeEveryMs: number }>;
  /** From 0 to 1; default: the machine's. */
  random?: () => number;
  /** Called on each change, with what led to it. */
  onState?: (state: BreakerState, fault: Fault | undefined) => void;
}>;

export type GuardStats = Readonly<{
  state: BreakerState;
  inFlight: number;
  timeouts: number;
  /** Answers that came after their deadline. */
  late: number;
  /** Calls refused unasked since the breaker is open or half-open. */
  skipped: number;
  /** Calls refused unasked since too many wait. */
  overloaded: number;
  /** Times the breaker opened. */
  opens: number;
  failures: Readonly<Partial<Record<FaultCode, number>>>;
}>;

export type GuardedStore = CounterStore &
  Readonly<{
    /** The store behind is known to be away: opens the breaker at once. */
    trip(fault: Fault): void;
    stats(): GuardStats;
  }>;

const CLOSE_WAIT_MS = 1_000;
const PROBE_LIMIT = 1_000_000;
const PROBE_WINDOW_MS = 1_000;

/** Closes `inner` with itself. */
export function guardedStore(inner: CounterStore, options: GuardOptions): GuardedStore {
  const { deadlineMs, inFlightMax, random = Math.random } = options;
  const counts = { inFlight: 0, timeouts: 0, late: 0, skipped: 0, overloaded: 0, opens: 0 };
  const failures: Partial<Record<FaultCode, number>> = {};
  let last: Fault | undefined;
  let closed = false;
  const breaker = createBreaker({ ...options.breaker }, (state) => {
    if (state === 'open') counts.opens++;
    if (state === 'open' && !closed) prober.start();
    // Where nothing is asked, nothing else would end the ramp.
    if (state === 'half-open')
      setTimeout(() => breaker.admits(performance.now(), 1), options.breaker.rampMs + 1).unref();
    options.onState?.(state, state === 'closed' ? undefined : last);
  });
  const deadlines = createDeadlines(deadlineMs);
  const prober = createProber({
    everyMs: options.breaker.probeEveryMs,
    random,
    wanted: () => breaker.state() === 'open' && !closed,
    probe: async () => {
      const outcome = await ask(probe(random()));
      breaker.probe(!(outcome instanceof Fault), performance.now());
    },
  });

  function note(fault: Fault): void {
    failures[fault.code] = (failures[fault.code] ?? 0) + 1;
    last = fault;
  }

  /** Settles within the deadline; never rejects. */
  function ask(checks: readonly Check[]): Promise<CheckResult[] | Fault> {
    return new Promise((resolve) => {
      const call = deadlines.open(() => {
        counts.timeouts++;
        const fault = new Fault('REDIS_TIMEOUT', { ms: deadlineMs });
        note(fault);
        resolve(fault);
      });
      const settle = (outcome: CheckResult[] | Fault): void => {
        counts.inFlight--;
        if (!call.settle()) {
          counts.late++;
          return;
        }
        if (outcome instanceof Fault) note(outcome);
        resolve(outcome);
      };
      counts.inFlight++;
      answerOf(inner, checks).then(settle, (error: unknown) => settle(asFault(error)));
    });
  }

  function refusal(): Fault | undefined {
    if (closed) return new Fault('STORE_CLOSED');
    if (counts.inFlight >= inFlightMax) {
      counts.overloaded++;
      return new Fault('STORE_OVERLOADED', { count: counts.inFlight });
    }
    if (breaker.state() === 'closed' || breaker.admits(performance.now(), random())) return undefined;
    counts.skipped++;
    return (last ??= new Fault('REDIS_TIMEOUT', { ms: deadlineMs }));
  }

  return {
    async checkAll(checks) {
      const refused = refusal();
      if (refused !== undefined) throw refused;
      const outcome = await ask(checks);
      if (!(outcome instanceof Fault)) {
        breaker.success(performance.now());
        return outcome;
      }
      if (outcome.code !== 'STORE_CLOSED') breaker.failure(performance.now());
      throw outcome;
    },
    trip(fault) {
      if (closed || breaker.state() === 'open') return;
      note(fault);
      breaker.trip();
    },
    stats: () => ({ ...counts, state: breaker.state(), failures: { ...failures } }),
    async close() {
      if (closed) return;
      closed = true;
      prober.stop();
      const untilMs = performance.now() + CLOSE_WAIT_MS;
      while (counts.inFlight > 0 && performance.now() < untilMs)
        await new Promise((resolve) => setTimeout(resolve, 5));
      await inner.close();
    },
  };
}

/** A store may throw, answer at once, or later. */
async function answerOf(inner: CounterStore, checks: readonly Check[]): Promise<CheckResult[]> {
  return inner.checkAll(checks);
}

function asFault(error: unknown): Fault {
  if (error instanceof Fault) return error;
  const why = error instanceof Error ? error.message : String(error);
  return new Fault('STORE_FAILED', { why }, error);
}

/**
 * It writes, as requests do: a store that reads but cannot write is not back. Each probe tries another slot.
 */
function probe(chance: number): readonly Check[] {
  const at = Math.floor(chance * 10_000);
  return [
    {
      key: `rl:probe:{${at}}:guard/fixed-window/${PROBE_WINDOW_MS}`,
      algorithm: 'fixed-window',
      limit: PROBE_LIMIT,
      windowMs: PROBE_WINDOW_MS,
      burst: PROBE_LIMIT,
      cost: 1,
    },
  ];
}

type Call = Readonly<{
  /** False where the deadline has passed. */
  settle(): boolean;
}>;

/** One timer for all calls: with one deadline for all, the oldest is always the next. */
function createDeadlines(deadlineMs: number) {
  type Entry = { readonly atMs: number; expire: (() => void) | undefined };
  let waiting: Entry[] = [];
  let head = 0;
  let timer: NodeJS.Timeout | undefined;

  function arm(): void {
    while (head < waiting.length && waiting[head]?.expire === undefined) head++;
    if (head === waiting.length) {
      waiting = [];
      head = 0;
      return;
    }
    if (head > 1024) {
      waiting = waiting.slice(head);
      head = 0;
    }
    const waitMs = Math.max(1, (waiting[head]?.atMs ?? 0) - performance.now());
    // A stalled loop runs timers before it reads answers that are there: look again after reading.
    timer ??= setTimeout(() => setImmediate(sweep), waitMs);
  }
  function sweep(): void {
    timer = undefined;
    const nowMs = performance.now();
    for (let at = head; at < waiting.length; at++) {
      const entry = waiting[at];
      if (entry === undefined || entry.atMs > nowMs) break;
      const { expire } = entry;
      entry.expire = undefined;
      expire?.();
    }
    arm();
  }
  return {
    open(expire: () => void): Call {
      const entry: Entry = { atMs: performance.now() + deadlineMs, expire };
      waiting.push(entry);
      if (timer === undefined) arm();
      return {
        settle() {
          const open = entry.expire !== undefined;
          entry.expire = undefined;
          return open;
        },
      };
    },
  };
}

type Probing = Readonly<{
  everyMs: number;
  random: () => number;
  wanted: () => boolean;
  probe: () => Promise<void>;
}>;

/** Probes again and again while that is wanted, each wait up to a half shorter by chance. */
function createProber({ everyMs, random, wanted, probe: once }: Probing) {
  let timer: NodeJS.Timeout | undefined;
  const next = (): void => {
    timer = setTimeout(() => void go(), everyMs * (0.5 + random() / 2)).unref();
  };
  const go = async (): Promise<void> => {
    await once();
    timer = undefined;
    // Looked at here and not before: it may have opened again in between.
    if (wanted()) next();
  };
  return {
    start(): void {
      if (timer === undefined) next();
    },
    stop: (): void => clearTimeout(timer),
  };
}
