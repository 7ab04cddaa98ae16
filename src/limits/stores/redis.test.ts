import t from 'tap';
import { Fault } from '../../core/errors.js';
import type { ScriptCall, ScriptExecutor, ScriptReply } from '../../redis/executor.js';
import type { Check } from '../limiter-contract.js';
import { redisStore } from './redis.js';

const check = (key: string, given: Partial<Check> = {}): Check => ({
  key,
  algorithm: 'fixed-window',
  limit: 5,
  windowMs: 1000,
  burst: 5,
  cost: 1,
  ...given,
});

const PASSES = [1, 4, 1000, 0, 0];
const REFUSES = [0, 0, 700, 700, 0];
const GIVE = 2;

/** Answers each call by its keys; keeps what was asked. */
function executorThat(answer: (call: ScriptCall) => ScriptReply, cluster = false) {
  const batches: (readonly ScriptCall[])[] = [];
  const executor: ScriptExecutor = {
    cluster,
    async evalBatch(calls) {
      batches.push(calls);
      return calls.map(answer);
    },
    close: async () => undefined,
  };
  return { executor, batches };
}

const each =
  (of: (key: string) => number[]) =>
  ({ keys }: ScriptCall): ScriptReply =>
    keys.flatMap(of);
const turn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));
const gives = (calls: readonly ScriptCall[]): ScriptCall[] => calls.filter(({ args }) => args[2] === GIVE);

t.test('all requests of one turn travel in one batch, each in one call with all of its keys', async (t) => {
  const { executor, batches } = executorThat(each(() => PASSES));
  const store = redisStore(executor);
  const pairs = Array.from({ length: 20 }, (_, n) => [check(`{a}${n}`), check(`{b}${n}`)]);
  await Promise.all(pairs.map((checks) => store.checkAll(checks)));
  t.equal(batches.length, 1);
  t.equal(batches[0]?.length, 20);
  t.same(batches[0]?.[3], {
    keys: ['{a}3', '{b}3'],
    args: [0, 1, 0, 5, 1000, 5, 1, 0, 1, 0, 5, 1000, 5, 1, 0],
  });
  t.match(store.stats(), { requests: 20, scriptCalls: 20, faults: 0, queued: 0 });
});

t.test('no time of this machine is sent', async (t) => {
  const { executor, batches } = executorThat(each(() => PASSES));
  await redisStore(executor).checkAll([check('a')]);
  t.equal(batches[0]?.[0]?.args[0], 0);
});

t.test('on a cluster there is one call per hash tag, and answers come back in order', async (t) => {
  const { executor, batches } = executorThat(each((key) => [1, Number(key.at(-1)), 1000, 0, 0]), true);
  const keys = ['rl:ip:{a}:1', 'rl:key:{b}:2', 'rl:ip:{a}:3', 'none:4', 'rl:{}:5'];
  const results = await redisStore(executor).checkAll(keys.map((key) => check(key)));
  t.same(
    batches[0]?.map((call) => call.keys),
    [['rl:ip:{a}:1', 'rl:ip:{a}:3'], ['rl:key:{b}:2'], ['none:4'], ['rl:{}:5']],
  );
  t.same(
    results.map(({ remaining }) => remaining),
    [1, 2, 3, 4, 5],
  );
});

t.test('what one slot counted is given back when another refuses; the request does not wait', async (t) => {
  const { executor, batches } = executorThat(each((key) => (key === '{b}' ? REFUSES : PASSES)), true);
  const store = redisStore(executor);
  const checks = [check('{a}', { cost: 2 }), check('{a}peek', { op: 'peek' }), check('{b}')];
  const results = await store.checkAll(checks);
  t.same(
    results.map(({ allowed, remaining }) => [allowed, remaining]),
    [
      [true, 6],
      [true, 4],
      [false, 0],
    ],
    'what was not counted after all remains',
  );
  await turn();
  t.same(gives(batches[1] ?? []), [{ keys: ['{a}'], args: [0, 1, GIVE, 5, 1000, 5, 2, 0] }]);
  t.match(store.stats(), { gives: 1, givesDropped: 0, givesFailed: 0 });
});

t.test('gives are bounded and counted when dropped or failed', async (t) => {
  const down = new Fault('STORE_FAILED', { why: 'down' });
  const answer = ({ keys, args }: ScriptCall): ScriptReply =>
    args[2] === GIVE ? down : keys.flatMap((key) => (key === '{b}' ? REFUSES : PASSES));
  const { executor } = executorThat(answer, true);
  const store = redisStore(executor, { givesMax: 3 });
  await Promise.all(Array.from({ length: 10 }, () => store.checkAll([check('{a}'), check('{b}')])));
  await store.close();
  t.match(store.stats(), { gives: 3, givesDropped: 7, givesFailed: 3 });
});

t.test('a call that failed is a fault for its request alone, and nothing is given back', async (t) => {
  const down = new Fault('STORE_TIMEOUT', { ms: 10 });
  const answer = ({ keys }: ScriptCall): ScriptReply =>
    keys[0] === '{b}' ? down : keys.flatMap(() => PASSES);
  const { executor, batches } = executorThat(answer, true);
  const store = redisStore(executor);
  const [broken, whole] = await Promise.allSettled([
    store.checkAll([check('{a}'), check('{b}')]),
    store.checkAll([check('{c}')]),
  ]);
  t.match(broken, { status: 'rejected', reason: { code: 'STORE_TIMEOUT' } });
  t.match(whole, { status: 'fulfilled', value: [{ allowed: true }] });
  await turn();
  t.equal(batches.length, 1);
  t.equal(store.stats().faults, 1);
});

t.test('keys of a slot that is moving are asked one by one, and still all or nothing', async (t) => {
  const moving = new Fault('STORE_FAILED', { why: 'TRYAGAIN Multiple keys request during rehashing of slot' });
  const answer = ({ keys }: ScriptCall): ScriptReply =>
    keys.length > 1 ? moving : keys.flatMap((key) => (key === '{a}3' ? REFUSES : PASSES));
  const { executor, batches } = executorThat(answer, true);
  const store = redisStore(executor);
  t.match(await store.checkAll([check('{a}1'), check('{b}'), check('{a}2')]), [
    { allowed: true, remaining: 4 },
    { allowed: true, remaining: 4 },
    { allowed: true, remaining: 4 },
  ]);
  t.same(
    batches.map((calls) => calls.map(({ keys }) => keys.join())),
    [
      ['{a}1,{a}2', '{b}'],
      ['{a}1', '{a}2'],
    ],
  );
  const results = await store.checkAll([check('{a}1'), check('{a}3')]);
  t.match(results, [
    { allowed: true, remaining: 5 },
    { allowed: false, remaining: 0 },
  ]);
  await store.close();
  t.match(store.stats(), { gives: 1, faults: 0 });
});

t.test('a refusal is an answer although another slot is silent', async (t) => {
  const down = new Fault('STORE_TIMEOUT', { ms: 10 });
  const answer = ({ keys }: ScriptCall): ScriptReply =>
    keys[0] === '{b}' ? down : keys.flatMap(() => REFUSES);
  const { executor } = executorThat(answer, true);
  const results = await redisStore(executor).checkAll([check('{a}'), check('{b}')]);
  t.match(results, [{ allowed: false }, { allowed: true, remaining: 0 }]);
});

const unreadable: Record<string, ScriptReply> = {
  nothing: [],
  'too little': [1, 4, 1000, 0],
  words: ['1', '4', '1000', '0', '0'],
  null: null as unknown as ScriptReply,
};
for (const [what, reply] of Object.entries(unreadable)) {
  t.test(`an answer that is no answer (${what}) is a fault, not a consent`, async (t) => {
    const store = redisStore(executorThat(() => reply).executor);
    await t.rejects(Promise.resolve(store.checkAll([check('a')])), { code: 'STORE_FAILED' });
  });
}

t.test('an executor that breaks its promise rejects every request of the batch', async (t) => {
  const broken: ScriptExecutor = {
    cluster: false,
    evalBatch: () => Promise.reject(new Error('broken')),
    close: async () => undefined,
  };
  const store = redisStore(broken);
  const all = await Promise.allSettled([store.checkAll([check('a')]), store.checkAll([check('b')])]);
  for (const one of all) t.match(one, { status: 'rejected', reason: { code: 'STORE_FAILED' } });
});

t.test('forgetting goes by hash tag and tells how many there were; a failure is told', async (t) => {
  const { executor, batches } = executorThat(({ keys }) => keys.flatMap(() => [1, 1, 0, 0, 0]), true);
  const keys = [...Array.from({ length: 150 }, (_, n) => `{a}${n}`), '{b}'];
  t.equal(await redisStore(executor).forget(keys), 151);
  t.same(
    batches[0]?.map((call) => call.keys.length),
    [100, 50, 1],
  );
  t.equal(await redisStore(executor).forget([]), 0);
  const down = executorThat(() => new Fault('STORE_FAILED', { why: 'down' })).executor;
  await t.rejects(redisStore(down).forget(['a']), { code: 'STORE_FAILED' });
});

t.test('a full queue and a closed store are faults; no checks are no call', async (t) => {
  const { executor, batches } = executorThat(each(() => PASSES));
  const store = redisStore(executor, { queueMax: 1 });
  t.same(await store.checkAll([]), []);
  const first = store.checkAll([check('a')]);
  await t.rejects(Promise.resolve(store.checkAll([check('b')])), { code: 'STORE_OVERLOADED' });
  t.match(await first, [{ allowed: true }]);
  const late = Promise.resolve(store.checkAll([check('a')]));
  const gone = t.rejects(late, { code: 'STORE_CLOSED' });
  await store.close();
  await gone;
  await t.rejects(Promise.resolve(store.checkAll([check('a')])), { code: 'STORE_CLOSED' });
  t.equal(batches.length, 1);
});
