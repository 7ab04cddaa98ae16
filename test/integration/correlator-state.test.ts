/** The state of partitions and the lease on a real Redis. */
import t from 'tap';
import { createLease } from '../../src/correlator/lease.js';
import { createStateStore, type Evaluate } from '../../src/correlator/state-store.js';
import { until } from '../support/case.js';
import { redisMissing, startRedis, type RedisServer } from '../support/redis.js';

let redis: RedisServer;
t.before(async () => {
  if (redisMissing === false) redis = await startRedis();
});
t.teardown(() => redis?.stop());

const evaluate: Evaluate = (source, { keys, args }) =>
  redis.client.eval(source, keys.length, ...keys, ...args);

function stored(nextOffset: number, epoch = 0, partition = 3) {
  return {
    partition,
    position: { epoch, nextOffset },
    state: { v: 1, nextOffset, parts: { a: 'x'.repeat(50) } },
  };
}

t.test(
  'a state goes forward only, comes back as it was and ends by itself',
  { skip: redisMissing },
  async (test) => {
    const store = createStateStore({ evaluate, group: 'g', onTrouble: (text) => test.fail(text) });
    test.equal(await store.load(3), undefined);
    test.ok(await store.save(stored(10)));
    test.ok(await store.save(stored(10)), 'again');
    test.notOk(await store.save(stored(9)), 'somebody else is further');
    test.same(await store.load(3), stored(10));
    test.ok(await store.save(stored(5, 1)), 'a topic that was made anew');
    test.notOk(await store.save(stored(11)));
    const ttlMs = await redis.client.pttl('cor:{g}:state:3');
    test.ok(ttlMs > 80_000_000 && ttlMs <= 86_400_000);
  },
);

t.test('others are read where they moved', { skip: redisMissing }, async (test) => {
  const store = createStateStore({ evaluate, group: 'h', onTrouble: (text) => test.fail(text) });
  for (const partition of [0, 1, 2]) await store.save(stored(10, 0, partition));
  const known = new Map([[1, { epoch: 0, nextOffset: 10 }]]);
  const { moved, all } = await store.others([0], known);
  test.same(
    moved.map(({ partition }) => partition),
    [2],
  );
  test.same([...all].sort(), [0, 1, 2]);
  await redis.client.del('cor:{h}:state:2');
  test.same((await store.others([0], known)).all, [0, 1], 'one that has ended is no longer there');
});

t.test('what is too large or broken costs a part, not the rest', { skip: redisMissing }, async (test) => {
  const told: string[] = [];
  const onTrouble = (text: string): void => void told.push(text);
  const store = createStateStore({ evaluate, group: 'i', onTrouble, valueMax: 2_000 });
  const noise = Array.from({ length: 3_000 }, () => Math.random().toString(36)).join('');
  const { state, ...rest } = stored(7);
  test.ok(await store.save({ ...rest, state: { ...state, parts: { ...state.parts, big: noise } } }));
  test.same((await store.load(3))?.state, state);
  test.match(told, [/too large to save; big is left out/]);
  await redis.client.hset('cor:{i}:state:3', 'd', 'no state');
  test.equal(await store.load(3), undefined);
  test.match(told[1], /cannot be read/);
});

t.test(
  'the lease of one that was killed goes to another within seconds',
  { skip: redisMissing },
  async (test) => {
    const killed = createLease({ evaluate, group: 'l', holder: 'a', ttlMs: 500, everyMs: 60_000 });
    killed.start();
    test.ok(await until(() => killed.isHeld()));
    const next = createLease({ evaluate, group: 'l', holder: 'b', ttlMs: 500, everyMs: 50 });
    next.start();
    test.ok(await until(() => next.isHeld()));
    test.notOk(killed.isHeld(), 'never two, as far as clocks run alike');
    await next.close();
    test.equal(await redis.client.get('cor:{l}:leader'), null, 'given back at the end');
    await killed.close();
  },
);
