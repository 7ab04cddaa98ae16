/**
 * Counters in Redis: all checks of a request in one round trip, the requests of one turn in one pipeline. On
 * a single node a request is one script call, so all or nothing is exact. On Cluster it is one call per hash
 * tag; where one refuses, what the others counted is given back right after, not awaited. Bound there: never
 * above a limit by this; below it by at most the requests between count and give (one round trip), and by
 * what a dropped or failed give leaves behind until its window ends. A give that arrives after a fixed window
 * or sliding counter has turned takes from the new one: above by at most the gives under way at that moment.
 */
import { Fault } from '../../core/errors.js';
import type { ScriptCall, ScriptExecutor, ScriptReply } from '../../redis/executor.js';
import { algorithms } from '../algorithms/index.js';
import type { AlgorithmName, Check, CheckResult, CounterStore } from '../limiter-contract.js';
import { uncounted } from '../uncounted.js';

const QUEUE_MAX = 10_000;
const GIVES_MAX = 1_000;
const REPLY_FIELDS = 5;
const OPS = { take: 0, peek: 1, give: 2 } as const;
const FORGET_ARGS = [1, 3, 1, 1, 1, 1, 0] as const;
const FORGET_KEYS_MAX = 100;
/** Lua counts from 1. */
const numbers = new Map<AlgorithmName, number>(algorithms.map(({ name }, at) => [name, at + 1]));

export type RedisStoreStats = Readonly<{
  /** Requests of this turn that wait for their pipeline. */
  queued: number;
  requests: number;
  scriptCalls: number;
  faults: number;
  /** Calls that gave back what one slot counted and another refused; Cluster alone. */
  gives: number;
  givesDropped: number;
  givesFailed: number;
}>;

export type RedisStore = Omit<CounterStore, 'forget'> &
  Readonly<{
    forget(keys: readonly string[]): Promise<number>;
    stats(): RedisStoreStats;
  }>;

type Options = Readonly<{
  /** Tests alone: the time that the script is to believe. Absent: Redis' own clock. */
  nowMs?: () => number;
  /** Requests that may be queued within one turn, from 1. */
  queueMax?: number;
  /** Give-backs that may be under way, from 0; more are dropped and counted. */
  givesMax?: number;
}>;

/** The checks of one request that lie in one slot: their places in the request, and the call. */
type Group = Readonly<{ places: readonly number[]; call: ScriptCall }>;

type Waiting = Readonly<{
  checks: readonly Check[];
  groups: readonly Group[];
  resolve(results: CheckResult[]): void;
  reject(fault: Fault): void;
}>;

/**
 * `checkAll` rejects with a Fault where Redis did not answer (what Redis may have counted stays: the request
 * may well be served under `onFailure`). Keys of one request are distinct; on Cluster they carry hash tags.
 */
export function redisStore(executor: ScriptExecutor, options: Options = {}): RedisStore {
  const { nowMs = () => 0, queueMax = QUEUE_MAX, givesMax = GIVES_MAX } = options;
  const counts = { requests: 0, scriptCalls: 0, faults: 0 };
  const gives = createGives(executor, givesMax);
  let queue: Waiting[] = [];
  let closed = false;

  async function flush(): Promise<void> {
    const requests = queue;
    queue = [];
    const calls = requests.flatMap(({ groups }) => groups.map(({ call }) => call));
    if (calls.length === 0) return;
    counts.scriptCalls += calls.length;
    const replies = await send(executor, calls);
    let at = 0;
    for (const request of requests) {
      const own = replies.slice(at, (at += request.groups.length));
      if (own.some((reply, index) => isTorn(reply, request.groups[index]))) void oneByOne(request, own);
      else settle(request, own);
    }
  }

  /** A slot on its way to another node refuses several keys where one is new; alone each of them passes. */
  async function oneByOne(request: Waiting, replies: readonly ScriptReply[]): Promise<void> {
    const { checks } = request;
    const whole = request.groups.filter((one, at) => !isTorn(replies[at], one));
    const parts = request.groups
      .filter((one) => !whole.includes(one))
      .flatMap(({ places }) => places)
      .map((place) => ({ places: [place], call: callFor(pick(checks, [place]), nowMs()) }));
    counts.scriptCalls += parts.length;
    const answers = await send(
      executor,
      parts.map(({ call }) => call),
    );
    const kept = replies.filter((reply, at) => !isTorn(reply, request.groups[at]));
    settle({ ...request, groups: [...whole, ...parts] }, [...kept, ...answers]);
  }

  function settle(request: Waiting, replies: readonly ScriptReply[]): void {
    const { results, fault, counted } = combine(request, replies);
    if (fault !== undefined) counts.faults++;
    if (counted.length > 0) gives.send(counted.map((group) => giveCall(request.checks, group, nowMs())));
    if (results !== undefined) request.resolve(results);
    else request.reject(fault ?? new Fault('STORE_FAILED', { why: 'it answered without results' }));
  }

  return {
    checkAll(checks) {
      if (closed) return Promise.reject(new Fault('STORE_CLOSED'));
      if (queue.length >= queueMax) return Promise.reject(new Fault('STORE_OVERLOADED', { count: queueMax }));
      const groups = group(checks, executor.cluster, nowMs());
      if (groups.length === 0) return [];
      counts.requests++;
      return new Promise<CheckResult[]>((resolve, reject) => {
        if (queue.length === 0) setImmediate(() => void flush());
        queue.push({ checks, groups, resolve, reject });
      });
    },
    forget: (keys) => (closed ? Promise.reject(new Fault('STORE_CLOSED')) : forget(executor, keys)),
    stats: () => ({ queued: queue.length, ...counts, ...gives.counts }),
    async close() {
      if (closed) return;
      closed = true;
      const fault = new Fault('STORE_CLOSED');
      for (const request of queue.splice(0)) request.reject(fault);
      await gives.settled();
      await executor.close();
    },
  };
}

/** Never rejects. */
function send(executor: ScriptExecutor, calls: readonly ScriptCall[]): Promise<readonly ScriptReply[]> {
  return executor.evalBatch(calls).catch((cause: unknown) => {
    const fault = cause instanceof Fault ? cause : new Fault('STORE_FAILED', { why: String(cause) }, cause);
    return calls.map(() => fault);
  });
}

/** TRYAGAIN tells that the script did not run. */
function isTorn(reply: ScriptReply | undefined, of: Group | undefined): boolean {
  const several = of !== undefined && of.places.length > 1;
  return several && reply instanceof Fault && /\bTRYAGAIN\b/.test(reply.message);
}

function group(checks: readonly Check[], cluster: boolean, nowMs: number): Group[] {
  const keys = checks.map(({ key }) => key);
  return byHashTag(keys, cluster).map((places) => ({
    places,
    call: callFor(places.length === checks.length ? checks : pick(checks, places), nowMs),
  }));
}

/** The places of the keys that go in one call each. */
function byHashTag(keys: readonly string[], cluster: boolean): number[][] {
  if (keys.length === 0) return [];
  if (!cluster) return [keys.map((_, at) => at)];
  const byTag = new Map<string, number[]>();
  keys.forEach((key, at) => {
    const tag = hashTag(key);
    const places = byTag.get(tag);
    if (places === undefined) byTag.set(tag, [at]);
    else places.push(at);
  });
  return [...byTag.values()];
}

/** What of a key decides its slot: between the first `{` and the next `}`, else all of it. */
function hashTag(key: string): string {
  const open = key.indexOf('{');
  const shut = open < 0 ? -1 : key.indexOf('}', open + 1);
  return shut > open + 1 ? key.slice(open + 1, shut) : key;
}

/** Rejects where any of them may still be there. */
async function forget(executor: ScriptExecutor, keys: readonly string[]): Promise<number> {
  const calls: ScriptCall[] = [];
  for (const places of byHashTag(keys, executor.cluster)) {
    for (let from = 0; from < places.length; from += FORGET_KEYS_MAX) {
      const some = places.slice(from, from + FORGET_KEYS_MAX).flatMap((at) => keys[at] ?? []);
      calls.push({ keys: some, args: [0, ...some.flatMap(() => FORGET_ARGS)] });
    }
  }
  const replies = calls.length === 0 ? [] : await executor.evalBatch(calls);
  let count = 0;
  for (const [at, { keys: some }] of calls.entries()) {
    const results = readReply(replies[at], some.length);
    if (results instanceof Fault) throw results;
    for (const { remaining } of results) count += remaining;
  }
  return count;
}

function pick(checks: readonly Check[], places: readonly number[]): Check[] {
  return places.flatMap((at) => checks[at] ?? []);
}

function callFor(checks: readonly Check[], nowMs: number): ScriptCall {
  const args: number[] = [nowMs];
  for (const { algorithm, op = 'take', limit, windowMs, burst, cost, delayMaxMs = 0 } of checks) {
    args.push(numbers.get(algorithm) ?? 0, OPS[op], limit, windowMs, burst, cost, delayMaxMs);
  }
  return { keys: checks.map(({ key }) => key), args };
}

const isTake = ({ op = 'take' }: Check): boolean => op === 'take';

function giveCall(checks: readonly Check[], { places }: Group, nowMs: number): ScriptCall {
  const takes = pick(checks, places).filter(isTake);
  return callFor(
    takes.map((check) => ({ ...check, op: 'give' as const })),
    nowMs,
  );
}

type Combined = Readonly<{
  results: CheckResult[] | undefined;
  fault: Fault | undefined;
  /** Groups that counted although the request is refused. */
  counted: readonly Group[];
}>;

function combine({ checks, groups }: Waiting, replies: readonly ScriptReply[]): Combined {
  const results: CheckResult[] = [];
  const counted: Group[] = [];
  let fault: Fault | undefined;
  let refused = false;
  groups.forEach((one, at) => {
    const answers = readReply(replies[at], one.places.length);
    if (answers instanceof Fault) {
      fault = answers;
      // Seen only where another check of the request is refused, so it is no consent.
      for (const place of one.places) results[place] = unread(checks[place]);
      return;
    }
    one.places.forEach((place, index) => (results[place] = answers[index] ?? unread(checks[place])));
    if (answers.some(({ allowed }) => !allowed)) refused = true;
    else if (pick(checks, one.places).some(isTake)) counted.push(one);
  });
  if (!refused) return { results: fault === undefined ? results : undefined, fault, counted: [] };
  return { results: results.map((result, at) => uncounted(result, checks[at])), fault, counted };
}

function unread(check: Check | undefined): CheckResult {
  const cost = check === undefined || !isTake(check) ? 0 : check.cost;
  return { allowed: true, remaining: -cost, resetMs: check?.windowMs ?? 0, retryAfterMs: 0 };
}

function readReply(reply: ScriptReply | undefined, checks: number): CheckResult[] | Fault {
  if (reply instanceof Fault) return reply;
  const results: CheckResult[] = [];
  for (let at = 0; at < checks * REPLY_FIELDS; at += REPLY_FIELDS) {
    const fields = (reply ?? []).slice(at, at + REPLY_FIELDS);
    const whole = fields.filter((field): field is number => typeof field === 'number');
    const [allowed, remaining, resetMs, retryAfterMs, delayMs] = whole;
    if (allowed === undefined || remaining === undefined || resetMs === undefined) return unreadable();
    if (retryAfterMs === undefined || delayMs === undefined) return unreadable();
    const result = { allowed: allowed === 1, remaining, resetMs, retryAfterMs };
    results.push(delayMs > 0 ? { ...result, delayMs } : result);
  }
  return results;
}

function unreadable(): Fault {
  return new Fault('STORE_FAILED', { why: 'the script answered with something else than results' });
}

/** Give-backs: sent once, never waited for by a request, bounded. */
function createGives(executor: ScriptExecutor, max: number) {
  const counts = { gives: 0, givesDropped: 0, givesFailed: 0 };
  const underWay = new Set<Promise<void>>();
  let calls = 0;

  async function run(batch: readonly ScriptCall[]): Promise<void> {
    const replies = await executor.evalBatch(batch).catch(() => []);
    const done = replies.filter((reply) => !(reply instanceof Fault)).length;
    counts.givesFailed += batch.length - done;
    calls -= batch.length;
  }

  return {
    counts,
    send(batch: readonly ScriptCall[]): void {
      if (calls + batch.length > max) {
        counts.givesDropped += batch.length;
        return;
      }
      calls += batch.length;
      counts.gives += batch.length;
      const running = run(batch).finally(() => underWay.delete(running));
      underWay.add(running);
    },
    /** Ends when none is under way; as bounded as `evalBatch`. */
    settled: async (): Promise<void> => void (await Promise.all(underWay)),
  };
}
