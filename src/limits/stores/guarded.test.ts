import { setTimeout as sleep } from 'node:timers/promises';
import t from 'tap';
import type { Fault } from '../../core/errors.js';
import type { CheckResult, CounterStore } from '../limiter-contract.js';
import { createBreaker } from './breaker.js';
import { guardedStore } from './guarded.js';

const rules = { failures: 5, ratio: 0.5, probes: 2, rampMs: 100 };
const passed: CheckResult[] = [{ allowed: true, remaining: 1, resetMs: 1, retryAfterMs: 0 }];
const held = setInterval(() => undefined, 1000);
t.teardown(() => clearInterval(held));

t.test('breaker: opens on failures in a row, on their part of a second, and on few over half a second', (t) => {
  const row = createBreaker(rules, () => undefined);
  for (let call = 0; call < 5; call++) row.failure(0);
  t.equal(row.state(), 'open');
  const part = createBreaker(rules, () => undefined);
  for (let call = 0; call < 20; call++) {
    if (call % 2 === 0) part.success(call);
    else part.failure(call);
  }
  t.equal(part.state(), 'open');
  const slow = createBreaker(rules, () => undefined);
  for (const nowMs of [0, 300, 600]) slow.failure(nowMs);
  t.equal(slow.state(), 'open');
  const old = createBreaker(rules, () => undefined);
  for (let call = 0; call < 40; call++) {
    old.failure(call * 2000);
    old.success(call * 2000 + 1);
  }
  t.equal(old.state(), 'closed', 'what is long past does not count');
  t.end();
});

t.test('breaker: probes half-open it, the part let through grows, one failure opens it again', (t) => {
  const states: string[] = [];
  const breaker = createBreaker(rules, (state) => states.push(state));
  breaker.trip();
  t.notOk(breaker.admits(0, 0));
  breaker.probe(true, 0);
  breaker.probe(false, 0);
  breaker.probe(true, 0);
  t.equal(breaker.state(), 'open', 'two in a row are asked for');
  breaker.probe(true, 0);
  t.same([breaker.admits(10, 0.5), breaker.admits(60, 0.5)], [false, true]);
  breaker.failure(61);
  breaker.probe(true, 70);
  breaker.probe(true, 70);
  t.ok(breaker.admits(170, 1));
  t.same(states, ['open', 'half-open', 'open', 'half-open', 'closed']);
  t.end();
});

function silent() {
  const waiting: ((results: CheckResult[]) => void)[] = [];
  const store: CounterStore = {
    checkAll: () => new Promise<CheckResult[]>((resolve) => waiting.push(resolve)),
    close: async () => undefined,
  };
  return { store, waiting };
}
const breaker = { ...rules, probeEveryMs: 10_000 };

t.test('silence is a fault after the deadline; the late answer is dropped; the bound holds', async (t) => {
  const { store, waiting } = silent();
  const guarded = guardedStore(store, { deadlineMs: 5, inFlightMax: 3, breaker });
  const ends = await Promise.allSettled(Array.from({ length: 5 }, () => guarded.checkAll([])));
  const codes = ends.map((end) => (end.status === 'rejected' ? (end.reason as Fault).code : 'answered'));
  t.same(codes.sort(), [...Array(3).fill('REDIS_TIMEOUT'), 'STORE_OVERLOADED', 'STORE_OVERLOADED'].sort());
  t.equal(guarded.stats().inFlight, 3, 'they are still under way');
  for (const answer of waiting) answer(passed);
  await sleep(1);
  const { inFlight, late, timeouts } = guarded.stats();
  t.same({ inFlight, late, timeouts }, { inFlight: 0, late: 3, timeouts: 3 });
  await guarded.close();
});

t.test('a worker that stalls is no Redis that is slow: what has arrived counts', async (t) => {
  const { store, waiting } = silent();
  const guarded = guardedStore(store, { deadlineMs: 10, inFlightMax: 3, breaker });
  const asked = guarded.checkAll([]);
  const stalledMs = performance.now() + 60;
  while (performance.now() < stalledMs);
  setImmediate(() => waiting[0]!(passed));
  t.same(await asked, passed);
  await guarded.close();
});
