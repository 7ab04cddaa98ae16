/**
 * Counters in the supervisor, asked by the workers: N workers share one limit. All checks of one turn of the
 * event loop travel in one message, as one flat array; answers are matched by sequence number. The worker
 * never waits past the deadline and never takes silence for consent: it rejects, and `limits.onFailure`
 * decides.
 */
import type { Channel } from '../../core/channel.js';
import { Fault } from '../../core/errors.js';
import type { Check, CheckResult, CounterStore } from '../limiter-contract.js';
import { packAnswers, packChecks, unpackAnswers, unpackChecks } from './wire.js';

const TOPIC = 'limits';
/** Far above a pause of a busy supervisor (no network lies between), below the deadline of the stage. */
const DEADLINE_MS = 1_000;
const IN_FLIGHT_MAX = 10_000;
/**
 * After so long without any answer the store is left alone for a moment, so that requests do not each wait.
 */
const SILENT_MS = 2_000;
const PAUSE_MS = 250;

type Waiting = Readonly<{
  checks: readonly Check[];
  resolve(results: CheckResult[]): void;
  reject(fault: Fault): void;
}>;

type Batch = Readonly<{ requests: readonly Waiting[]; timer: NodeJS.Timeout }>;

export type IpcStoreStats = Readonly<{
  inFlight: number;
  timeouts: number;
  rejected: number;
  batches: number;
}>;

export type IpcStore = CounterStore & Readonly<{ stats(): IpcStoreStats }>;

type Options = Readonly<{ deadlineMs?: number; inFlightMax?: number; silentMs?: number }>;

/** Worker side. `deadlineMs` from 1; `inFlightMax` counts requests, each with all of its checks. */
export function ipcStore(channel: Channel, options: Options = {}): IpcStore {
  const { deadlineMs = DEADLINE_MS, inFlightMax = IN_FLIGHT_MAX, silentMs = SILENT_MS } = options;
  const silence = createSilence(silentMs);
  const book = createBook(deadlineMs, silence);
  let queue: Waiting[] = [];
  let closed = false;

  channel.on(TOPIC, (body) => {
    if (!Array.isArray(body)) return;
    const number: unknown = body[0];
    if (typeof number !== 'number') return;
    // A late answer is a sign of life too.
    silence.broken();
    book.settle(number, body);
  });

  function flush(): void {
    const requests = queue;
    queue = [];
    if (requests.length === 0) return;
    const number = book.open(requests);
    silence.asked();
    if (!channel.send(TOPIC, packChecks(number, requests))) book.fail(number, new Fault('STORE_CLOSED'));
  }

  function refusal(): Fault | undefined {
    const waiting = book.counts.inFlight + queue.length;
    if (closed) return new Fault('STORE_CLOSED');
    if (silence.paused()) return new Fault('STORE_TIMEOUT', { ms: deadlineMs });
    return waiting >= inFlightMax ? new Fault('STORE_OVERLOADED', { count: waiting }) : undefined;
  }

  return {
    checkAll(checks) {
      const fault = refusal();
      if (fault !== undefined) {
        book.counts.rejected++;
        return Promise.reject(fault);
      }
      return new Promise<CheckResult[]>((resolve, reject) => {
        if (queue.length === 0) setImmediate(flush);
        queue.push({ checks, resolve, reject });
      });
    },
    stats: () => ({ ...book.counts, inFlight: book.counts.inFlight + queue.length }),
    async close() {
      if (closed) return;
      closed = true;
      const fault = new Fault('STORE_CLOSED');
      for (const request of queue.splice(0)) request.reject(fault);
      book.failAll(fault);
    },
  };
}

type Silence = ReturnType<typeof createSilence>;

/** Knows for how long nothing was heard, and when not to ask. */
function createSilence(silentMs: number) {
  let sinceMs: number | undefined;
  let pausedUntilMs = 0;
  return {
    asked: (): void => void (sinceMs ??= performance.now()),
    broken: (): void => void (sinceMs = undefined),
    expired(): void {
      const nowMs = performance.now();
      if (sinceMs !== undefined && nowMs - sinceMs >= silentMs) pausedUntilMs = nowMs + PAUSE_MS;
    },
    paused: (): boolean => pausedUntilMs > 0 && performance.now() < pausedUntilMs,
  };
}

/** The batches that are under way, each with its timer. */
function createBook(deadlineMs: number, silence: Silence) {
  const batches = new Map<number, Batch>();
  const counts = { inFlight: 0, timeouts: 0, rejected: 0, batches: 0 };
  let sequence = 0;

  function take(number: number): Batch | undefined {
    const batch = batches.get(number);
    if (batch === undefined) return undefined;
    batches.delete(number);
    clearTimeout(batch.timer);
    counts.inFlight -= batch.requests.length;
    return batch;
  }

  function fail(number: number, fault: Fault): void {
    const batch = take(number);
    if (batch === undefined) return;
    counts.rejected += batch.requests.length;
    for (const request of batch.requests) request.reject(fault);
  }

  function expire(number: number): void {
    if (!batches.has(number)) return;
    counts.timeouts++;
    silence.expired();
    fail(number, new Fault('STORE_TIMEOUT', { ms: deadlineMs }));
  }

  return {
    counts,
    fail,
    failAll(fault: Fault): void {
      for (const number of [...batches.keys()]) fail(number, fault);
    },
    open(requests: readonly Waiting[]): number {
      const number = sequence++;
      // A stalled loop runs timers before it reads answers that are there: look again after reading.
      const timer = setTimeout(() => setImmediate(expire, number), deadlineMs);
      timer.unref();
      batches.set(number, { requests, timer });
      counts.batches++;
      counts.inFlight += requests.length;
      return number;
    },
    settle(number: number, flat: readonly unknown[]): void {
      const batch = take(number);
      if (batch === undefined) return;
      unpackAnswers(flat, batch.requests, (request, results) => {
        if (results !== undefined) request.resolve(results);
        else request.reject(new Fault('STORE_FAILED', { why: 'it answered without results' }));
      });
    },
  };
}

/**
 * Supervisor side: answers every batch that arrives on `channel` from `store`. What cannot be read gets no
 * answer.
 */
export function serveStore(channel: Channel, store: CounterStore): void {
  channel.on(TOPIC, (body) => {
    if (!Array.isArray(body)) return;
    const number: unknown = body[0];
    const groups = unpackChecks(body);
    if (typeof number !== 'number' || groups === undefined) return;
    const results = groups.map((checks) => answer(store, checks));
    if (results.some((result) => result instanceof Promise)) {
      void Promise.all(results).then((all) => channel.send(TOPIC, packAnswers(number, all)));
    } else channel.send(TOPIC, packAnswers(number, results as (CheckResult[] | undefined)[]));
  });
}

type Answer = CheckResult[] | undefined;

/** Undefined where the store failed: the worker turns it into a fault of its own. */
function answer(store: CounterStore, checks: readonly Check[]): Answer | Promise<Answer> {
  try {
    const results = store.checkAll(checks);
    return results instanceof Promise ? results.catch(() => undefined) : results;
  } catch {
    return undefined;
  }
}
