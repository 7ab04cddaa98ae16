/**
 * Counters in the supervisor, asked by the workers: N workers share one limit. All checks of one turn of the event
 * loop travel in one message, as one flat array; answers are matched by sequence number. The worker never waits
 * past the deadline and never takes silence for consent: it rejects, and `limits.onFailure` decides.
 */
import type { Channel } from '../../core/channel.js';
import { Fault } from '../../core/errors.js';
import type { Check, CheckResult, CounterStore } from '../limiter-contract.js';
import { packAnswers, packChecks, unpackAnswers, unpackChecks } from './wire.js';

const TOPIC = 'limits';
const DEADLINE_MS = 50;
const IN_FLIGHT_MAX = 10_000;
/** After this many batches in a row without an answer, the store is left alone for a moment. */
const SILENT_BATCHES_MAX = 3;
const PAUSE_MS = 250;

type Waiting = Readonly<{
  checks: readonly Check[];
  resolve(results: CheckResult[]): void;
  reject(fault: Fault): void;
}>;

type Batch = Readonly<{ requests: readonly Waiting[]; timer: NodeJS.Timeout }>;

export type IpcStoreStats = Readonly<{ inFlight: number; timeouts: number; rejected: number; batches: number }>;

export type IpcStore = CounterStore & Readonly<{ stats(): IpcStoreStats }>;

/** Worker side. `deadlineMs` from 1; `inFlightMax` counts requests, each with all of its checks. */
export function ipcStore(channel: Channel, options: { deadlineMs?: number; inFlightMax?: number } = {}): IpcStore {
  const { deadlineMs = DEADLINE_MS, inFlightMax = IN_FLIGHT_MAX } = options;
  const batches = new Map<number, Batch>();
  const counts = { inFlight: 0, timeouts: 0, rejected: 0, batches: 0 };
  let queue: Waiting[] = [];
  let sequence = 0;
  let silent = 0;
  let paused = false;
  let closed = false;

  channel.on(TOPIC, (body) => {
    const [answered, ...rest] = Array.isArray(body) ? (body as unknown[]) : [];
    const batch = typeof answered === 'number' ? take(answered) : undefined;
    if (batch === undefined) return;
    silent = 0;
    const answers = unpackAnswers(rest, batch.requests.map((request) => request.checks.length));
    batch.requests.forEach((request, at) => {
      const results = answers[at];
      if (results === undefined) request.reject(new Fault('STORE_FAILED', { why: 'it answered without results' }));
      else request.resolve(results);
    });
  });

  function take(number: number): Batch | undefined {
    const batch = batches.get(number);
    if (batch === undefined) return undefined;
    batches.delete(number);
    clearTimeout(batch.timer);
    counts.inFlight -= batch.requests.length;
    return batch;
  }

  function flush(): void {
    const requests = queue;
    queue = [];
    if (requests.length === 0) return;
    const number = sequence++;
    // A stalled loop runs timers before it reads answers that already arrived: look once more after reading.
    const timer = setTimeout(() => setImmediate(expire, number), deadlineMs);
    timer.unref();
    batches.set(number, { requests, timer });
    counts.batches++;
    if (!channel.send(TOPIC, [number, ...packChecks(requests.map((request) => request.checks))])) fail(number, new Fault('STORE_CLOSED'));
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
    fail(number, new Fault('STORE_TIMEOUT', { ms: deadlineMs }));
    if (++silent < SILENT_BATCHES_MAX || paused) return;
    paused = true;
    setTimeout(() => (paused = false), PAUSE_MS).unref();
  }

  function refusal(): Fault | undefined {
    if (closed) return new Fault('STORE_CLOSED');
    if (paused) return new Fault('STORE_TIMEOUT', { ms: deadlineMs });
    return counts.inFlight >= inFlightMax ? new Fault('STORE_OVERLOADED', { count: counts.inFlight }) : undefined;
  }

  return {
    checkAll(checks) {
      const fault = refusal();
      if (fault !== undefined) {
        counts.rejected++;
        return Promise.reject(fault);
      }
      return new Promise<CheckResult[]>((resolve, reject) => {
        if (queue.length === 0) setImmediate(flush);
        counts.inFlight++;
        queue.push({ checks, resolve, reject });
      });
    },
    stats: () => ({ ...counts }),
    async close() {
      if (closed) return;
      closed = true;
      const fault = new Fault('STORE_CLOSED');
      counts.inFlight -= queue.length;
      for (const request of queue.splice(0)) request.reject(fault);
      for (const number of [...batches.keys()]) fail(number, fault);
    },
  };
}

/** Supervisor side: answers every batch that arrives on `channel` from `store`. What cannot be read gets no answer. */
export function serveStore(channel: Channel, store: CounterStore): void {
  channel.on(TOPIC, (body) => {
    const [number, ...rest] = Array.isArray(body) ? (body as unknown[]) : [];
    const groups = unpackChecks(rest);
    if (typeof number !== 'number' || groups === undefined) return;
    const results = groups.map((checks) => answer(store, checks));
    if (results.some((result) => result instanceof Promise)) {
      void Promise.all(results).then((all) => channel.send(TOPIC, [number, ...packAnswers(all)]));
    } else channel.send(TOPIC, [number, ...packAnswers(results as (CheckResult[] | undefined)[])]);
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

