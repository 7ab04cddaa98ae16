import t from 'tap';
import { channelPair, type Channel } from '../../core/channel.js';
import type { Check, CounterStore } from '../limiter-contract.js';
import { playTable } from '../testing.js';
import { ipcStore, serveStore } from './ipc.js';
import { memoryStore } from './memory.js';

// The store's timers do not hold the process; something has to while a test waits for them.
const held = setInterval(() => undefined, 1000);
t.teardown(() => clearInterval(held));

const check = (key: string, given: Partial<Check> = {}): Check => ({
  key,
  algorithm: 'fixed-window',
  limit: 2,
  windowMs: 1000,
  burst: 2,
  cost: 1,
  ...given,
});

const handClock = (nowMs = 1_000_000) => ({
  at: nowMs,
  nowMs: () => nowMs,
  move(ms: number) {
    nowMs += ms;
  },
});

type Made = { store: CounterStore; clock: ReturnType<typeof handClock> };

t.test('memory: the shared table of timed calls', async (t) => {
  const clock = handClock();
  const store = memoryStore({ clock });
  await playTable(t, (asked, atMs) => {
    clock.move(atMs - clock.nowMs());
    return store.checkAll([asked])[0]!;
  });
});

t.test('ipc: the shared table of timed calls', async (t) => {
  const clock = handClock();
  const [worker, supervisor] = channelPair();
  serveStore(supervisor, memoryStore({ clock }));
  const store = ipcStore(worker, { deadlineMs: 5000 });
  await playTable(t, async (asked, atMs) => {
    clock.move(atMs - clock.nowMs());
    return (await store.checkAll([asked]))[0]!;
  });
});

const variants: Record<string, () => Made> = {
  memory: () => {
    const clock = handClock();
    return { store: memoryStore({ clock }), clock };
  },
  ipc: () => {
    const clock = handClock();
    const [worker, supervisor] = channelPair();
    serveStore(supervisor, memoryStore({ clock }));
    return { store: ipcStore(worker, { deadlineMs: 1000 }), clock };
  },
};

for (const [name, make] of Object.entries(variants)) {
  t.test(`${name}: counts to the limit, refuses, and forgets with the window`, async (t) => {
    const { store, clock } = make();
    const answers = [];
    for (let call = 0; call < 3; call++) answers.push((await store.checkAll([check('a')]))[0]?.allowed);
    t.same(answers, [true, true, false]);
    clock.move(1000);
    t.equal((await store.checkAll([check('a')]))[0]?.allowed, true);
    await store.close();
  });

  t.test(`${name}: when one check is refused, none of the request is counted`, async (t) => {
    const { store } = make();
    await store.checkAll([check('small', { limit: 1 })]);
    for (let call = 0; call < 5; call++) {
      const [wide, small] = await store.checkAll([check('wide'), check('small', { limit: 1 })]);
      t.equal(wide?.allowed, true);
      t.equal(wide?.remaining, 2, 'nothing taken from the other');
      t.equal(small?.allowed, false);
    }
    await store.close();
  });

  t.test(`${name}: a peek that is refused keeps the others from counting, a give goes through`, async (t) => {
    const { store } = make();
    await store.checkAll([check('full', { limit: 1 }), check('back')]);
    const asked = [check('full', { limit: 1, op: 'peek' }), check('other'), check('back', { op: 'give' })];
    const [full, other, back] = await store.checkAll(asked);
    t.match([full, other, back], [{ allowed: false }, { allowed: true, remaining: 2 }, { allowed: true }]);
    t.equal((await store.checkAll([check('back', { op: 'peek' })]))[0]?.remaining, 1, 'given back');
    await store.close();
  });

  t.test(`${name}: a hundred calls at once against a limit of ten let exactly ten pass`, async (t) => {
    const { store } = make();
    const calls = Array.from({ length: 100 }, () => store.checkAll([check('hot', { limit: 10 })]));
    const allowed = (await Promise.all(calls)).filter(([result]) => result?.allowed);
    t.equal(allowed.length, 10);
    await store.close();
  });

  t.test(`${name}: a closed store rejects and never says allowed`, async (t) => {
    const { store } = make();
    await store.close();
    await t.rejects(async () => store.checkAll([check('a')]), { code: 'STORE_CLOSED' });
  });
}

t.test('memory: stays within its bound, and filling it does not free a key under refusal', async (t) => {
  const clock = handClock();
  const store = memoryStore({ clock, keysMax: 100 });
  for (let call = 0; call < 3; call++) store.checkAll([check('abuser')]);
  for (let key = 0; key < 5000; key++) store.checkAll([check(`other-${key}`, { windowMs: 60_000 })]);
  t.ok(store.stats().keys <= 100);
  t.ok(store.stats().evicted >= 4900);
  t.equal(store.checkAll([check('abuser')])[0]?.allowed, false);
});

t.test(
  'memory: keys under refusal take at most half of it, and leave when their refusal is over',
  async (t) => {
    const clock = handClock();
    const store = memoryStore({ clock, keysMax: 100 });
    for (let key = 0; key < 100; key++)
      for (let call = 0; call < 3; call++) store.checkAll([check(`abuser-${key}`)]);
    for (let key = 0; key < 1000; key++) store.checkAll([check(`other-${key}`, { windowMs: 60_000 })]);
    const refused = Array.from({ length: 100 }, (_, key) =>
      store.checkAll([check(`abuser-${key}`, { cost: 2 })]),
    );
    t.equal(refused.filter(([result]) => result?.allowed === false).length, 50);
    t.ok(store.stats().keys <= 100);
    clock.move(60_000);
    for (let call = 0; call < 400; call++) store.checkAll([check('one', { limit: 1000, windowMs: 60_000 })]);
    t.equal(store.stats().keys, 1);
  },
);

t.test('memory: expired keys leave while others are counted', async (t) => {
  const clock = handClock();
  const store = memoryStore({ clock });
  for (let key = 0; key < 500; key++) store.checkAll([check(`k${key}`)]);
  clock.move(1000);
  for (let call = 0; call < 400; call++) store.checkAll([check('one', { limit: 1000, windowMs: 60_000 })]);
  t.equal(store.stats().keys, 1);
  t.equal(store.stats().expired, 500);
});

t.test('memory: 200 000 counters take less than 60 MB', async (t) => {
  const store = memoryStore({ clock: handClock() });
  globalThis.gc?.();
  const before = process.memoryUsage().heapUsed;
  for (let key = 0; key < 200_000; key++)
    store.checkAll([check(`rl:ip:{10.0.${key >> 8}.${key & 255}}:api`, { algorithm: 'sliding-counter' })]);
  globalThis.gc?.();
  const bytes = process.memoryUsage().heapUsed - before;
  t.ok(globalThis.gc === undefined || bytes < 60e6, `${Math.round(bytes / 200_000)} bytes a key`);
  t.equal(store.stats().keys, 65_536 * 3 + 3392);
  t.comment(`${Math.round(bytes / 200_000)} bytes a key`);
});

t.test('ipc: all checks of one turn travel in one message', async (t) => {
  const [worker, supervisor] = channelPair();
  let messages = 0;
  const counting: Channel = {
    ...worker,
    send: (topic, body) => (messages++, worker.send(topic, JSON.parse(JSON.stringify(body)) as unknown)),
  };
  serveStore(supervisor, memoryStore({ clock: handClock() }));
  const store = ipcStore(counting);
  await Promise.all(
    Array.from({ length: 50 }, (_, at) => store.checkAll([check(`k${at}`), check('all', { limit: 100 })])),
  );
  t.equal(messages, 1);
  t.equal(store.stats().inFlight, 0);
});

t.test('ipc: silence is a fault after the deadline, then the store is left alone for a moment', async (t) => {
  const [worker, supervisor] = channelPair();
  supervisor.on('limits', () => undefined);
  const store = ipcStore(worker, { deadlineMs: 5, silentMs: 12 });
  for (let call = 0; call < 4; call++)
    await t.rejects(Promise.resolve(store.checkAll([check('a')])), { code: 'STORE_TIMEOUT' });
  const { batches, timeouts } = store.stats();
  await t.rejects(Promise.resolve(store.checkAll([check('a')])), { code: 'STORE_TIMEOUT' });
  t.same(store.stats(), { inFlight: 0, timeouts, rejected: 5, batches }, 'nothing more was sent');
  t.ok(batches < 4 && timeouts === batches);
});

t.test('ipc: a line that is gone, too many in flight, and a failing store are faults', async (t) => {
  const gone = ipcStore({ send: () => false, on: () => undefined });
  await t.rejects(Promise.resolve(gone.checkAll([check('a')])), { code: 'STORE_CLOSED' });

  const [worker, supervisor] = channelPair();
  supervisor.on('limits', () => undefined);
  const full = ipcStore(worker, { inFlightMax: 2, deadlineMs: 20 });
  const waiting = [full.checkAll([check('a')]), full.checkAll([check('a')])].map((call) =>
    Promise.resolve(call).catch(() => 'late'),
  );
  await t.rejects(Promise.resolve(full.checkAll([check('a')])), { code: 'STORE_OVERLOADED' });
  t.same(await Promise.all(waiting), ['late', 'late']);

  const [left, right] = channelPair();
  serveStore(right, { checkAll: () => Promise.reject(new Error('down')), close: async () => undefined });
  await t.rejects(Promise.resolve(ipcStore(left).checkAll([check('a')])), { code: 'STORE_FAILED' });
});

t.test('ipc: what is no batch is passed over', async (t) => {
  const [worker, supervisor] = channelPair();
  serveStore(supervisor, memoryStore({ clock: handClock() }));
  let answers = 0;
  worker.on('limits', () => answers++);
  for (const body of [null, 'x', [], [1, 5], [1, 1, 'k', 9, 1, 1, 1, 1], ['1', 0], [2, 1, 3, 0, 1, 1, 1, 1]])
    worker.send('limits', body);
  await new Promise((resolve) => setImmediate(resolve));
  t.equal(answers, 0);
});
