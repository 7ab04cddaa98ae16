/** Gates that follow the bans in a real Redis: by messages, by looking, and when Redis has lost them. */
import t, { type Test } from 'tap';
import { BAN_CHANNEL } from '../../src/controls/ban-script.js';
import type { FeedChange } from '../../src/controls/ban-feed-contract.js';
import { followBook, type Follower } from '../../src/controls/follow.js';
import { found, network, RULES, told } from '../../src/controls/testing.js';
import type { RedisBook } from '../../src/controls/redis-book.js';
import { redisSection } from '../../src/redis/config.js';
import { redisSettings } from '../../src/redis/settings.js';
import { subscribeRedis } from '../../src/redis/subscriber.js';
import { redisBook } from '../support/bans.js';
import { until } from '../support/case.js';
import { fill, redisMissing, startRedis } from '../support/redis.js';
import { startProxy } from '../support/redis-proxy.js';

const LONG = { ...RULES, base: 600_000 };
const BY = { actor: 'ann@desk', reason: 'mistake' };

type Gate = Readonly<{
  follower: Follower;
  book: RedisBook;
  changes: FeedChange[];
  warnings: string[];
  values: () => string[];
}>;

/** What a gate's supervisor does with Redis at `port`; `pollMs`: a minute where messages alone must do. */
async function gate(t: Test, port: number, pollMs = 200, line = port): Promise<Gate> {
  const book = await redisBook(t, { url: `redis://127.0.0.1:${port}` }, { rules: LONG });
  const settings = redisSettings(redisSection.parse({ url: `redis://127.0.0.1:${line}` })!, { baseDir: '/' });
  const changes: FeedChange[] = [];
  const warnings: string[] = [];
  const follower = followBook({
    book,
    subscribe: (onMessage) => subscribeRedis(settings, BAN_CHANNEL, onMessage),
    clock: { nowMs: () => Date.now() },
    log: (_level, text) => void warnings.push(text),
    pollMs: () => pollMs,
    actor: 'gate:test',
  });
  follower.listen((change) => changes.push(change));
  t.teardown(() => follower.close());
  await follower.start();
  const values = () => [...follower.bans()].map(({ subject }) => subject.value).sort();
  return { follower, book, changes, warnings, values };
}

const ban = (book: RedisBook, ...values: string[]) =>
  book.ban(values.map((value) => told(600_000, { subject: network(value) })));
const same = (a: readonly string[], b: readonly string[]) => JSON.stringify(a) === JSON.stringify(b);

t.test('with a real Redis', { skip: redisMissing }, async (t) => {
  const server = await startRedis();
  t.teardown(() => server.stop());
  const { port, client } = server;
  t.beforeEach(() => client.flushall());

  await t.test('changes come by message, in order, without a look', async (t) => {
    const other = await redisBook(t, { url: `redis://127.0.0.1:${port}` }, { rules: LONG });
    await ban(other, '192.0.2.1');
    const { values, changes, follower } = await gate(t, port, 60_000);
    t.same(values(), ['192.0.2.1'], 'what was there before');
    t.match(changes, [{ kind: 'added', live: false }]);
    await until(async () => (await client.pubsub('NUMSUB', BAN_CHANNEL))[1] === 1);
    const many = Array.from({ length: 600 }, (_, n) => `10.0.${n >> 8}.${n & 255}`);
    await ban(other, ...many);
    await other.unban(network('192.0.2.1'), BY);
    t.ok(await until(() => values().length === 600 && !values().includes('192.0.2.1')), 'all heard');
    t.match(changes.at(-2), { kind: 'added', live: true });
    t.equal(follower.stats().missed, 0);
    t.equal(follower.stats().version, (await other.mark()).version);
  });

  await t.test('a missed message heals at the next look, and the line is made anew', async (t) => {
    const { values, book, follower } = await gate(t, port);
    await ban(book, '192.0.2.1');
    t.ok(await until(() => values().length === 1));
    // Whatever is published while nobody listens is gone.
    const proxy = await startProxy(port);
    t.teardown(() => proxy.close());
    const deaf = await gate(t, port, 200, proxy.port);
    await until(async () => (await client.pubsub('NUMSUB', BAN_CHANNEL))[1] === 2);
    proxy.swallow(true);
    await ban(book, '192.0.2.2');
    await book.unban(network('192.0.2.1'), BY);
    t.ok(await until(() => same(deaf.values(), ['192.0.2.2'])), 'a stalled line');
    proxy.swallow(false);
    await client.call('CLIENT', 'KILL', 'TYPE', 'pubsub');
    await ban(book, '192.0.2.3');
    t.ok(await until(() => same(values(), ['192.0.2.2', '192.0.2.3'])), 'a killed line');
    t.ok(deaf.follower.stats().missed > 0);
    t.equal(follower.stats().failures, 0);
  });

  await t.test('a read that fails keeps the list', async (t) => {
    const proxy = await startProxy(port);
    t.teardown(() => proxy.close());
    const { values, book, warnings, follower } = await gate(t, proxy.port);
    await ban(book, '192.0.2.1');
    t.ok(await until(() => values().length === 1));
    proxy.swallow(true);
    t.ok(await until(() => follower.stats().failures > 1, 10_000), 'it was looked for');
    t.same(values(), ['192.0.2.1']);
    t.equal(warnings.filter((text) => text.includes('the last list holds')).length, 1, 'told once');
    proxy.swallow(false);
    t.ok(await until(() => warnings.some((text) => text.includes('answers again')), 10_000));
    t.same(values(), ['192.0.2.1']);
  });

  await t.test('Redis is flushed: bans stay, and are put back by whoever held them', async (t) => {
    const [one, two] = [await gate(t, port), await gate(t, port)];
    const past = Date.now();
    await one.book.ban([found(past), found(past, { subject: network('192.0.2.9'), mode: 'watch' })]);
    await ban(one.book, '192.0.2.1', '192.0.2.2');
    await one.book.unban(network('192.0.2.2'), BY);
    const wanted = ['192.0.2.1', '192.0.2.9', '198.51.100.7'];
    t.ok(await until(() => same(two.values(), wanted)));
    const before = [...two.follower.bans()];
    await client.flushall();
    const back = async () => (await one.book.read()).bans.map(({ subject }) => subject.value).sort();
    t.ok(await until(async () => same(await back(), wanted)), 'all are back');
    t.same(two.values(), wanted, 'and were never away');
    t.equal(two.changes.filter(({ kind }) => kind === 'removed').length, 1, 'only what was lifted');
    const after = [...two.follower.bans()];
    t.same(after.map(({ id }) => id).sort(), before.map(({ id }) => id).sort(), 'the same bans, no longer');
    t.match(await one.book.ban([found(past)]), [{ result: 'same' }], 'their evidence is known again');
    t.match(await one.book.audit(1), [{ what: 'restore', actor: 'gate:test' }]);
    t.ok(one.follower.stats().restored + two.follower.stats().restored >= 3);
  });

  await t.test('an older copy of Redis is restored: what came since is put back, what was lifted stays so', async (t) => {
    const { values, book } = await gate(t, port);
    await ban(book, '192.0.2.1', '192.0.2.2');
    const keys = await client.keys('{bans}:*');
    const dumps = await Promise.all(keys.map(async (key) => [key, await client.dumpBuffer(key)] as const));
    await book.unban(network('192.0.2.1'), BY);
    await ban(book, '192.0.2.3');
    t.ok(await until(() => same(values(), ['192.0.2.2', '192.0.2.3'])));
    await client.multi().flushall().exec();
    for (const [key, dump] of dumps) await client.restore(key, 0, dump!);
    const there = async () => (await book.read()).bans.map(({ subject }) => subject.value).sort();
    t.ok(await until(async () => same(await there(), ['192.0.2.2', '192.0.2.3'])));
    t.same(values(), ['192.0.2.2', '192.0.2.3']);
  });

  await t.test('a stale gate does not undo an unban: the book remembers', async (t) => {
    const proxy = await startProxy(port);
    t.teardown(() => proxy.close());
    const [stale, fresh] = [await gate(t, proxy.port), await gate(t, port)];
    await ban(fresh.book, '192.0.2.1', '192.0.2.2');
    t.ok(await until(() => stale.values().length === 2));
    proxy.swallow(true);
    await fresh.book.unban(network('192.0.2.1'), BY);
    t.ok(await until(() => stale.follower.stats().failures > 0, 10_000));
    t.same(stale.values(), ['192.0.2.1', '192.0.2.2'], 'cut off, it goes on');
    proxy.swallow(false);
    t.ok(await until(() => same(stale.values(), ['192.0.2.2']), 10_000), 'back, it obeys');
    t.equal((await fresh.book.read()).bans.length, 1);
  });

  await t.test('nor where the book has lost that: the other gates remember', async (t) => {
    const proxy = await startProxy(port);
    t.teardown(() => proxy.close());
    const [stale, fresh] = [await gate(t, proxy.port), await gate(t, port)];
    await ban(fresh.book, '192.0.2.1', '192.0.2.2');
    t.ok(await until(() => stale.values().length === 2));
    proxy.swallow(true);
    await fresh.book.unban(network('192.0.2.1'), BY);
    t.ok(await until(() => stale.follower.stats().failures > 0, 10_000));
    t.ok(await until(() => fresh.values().length === 1));
    await client.flushall();
    proxy.swallow(false);
    t.ok(await until(() => stale.follower.stats().restored + fresh.follower.stats().restored >= 1, 10_000));
    const there = async () => (await fresh.book.read()).bans.map(({ subject }) => subject.value);
    t.ok(await until(async () => same(await there(), ['192.0.2.2']), 10_000));
    t.ok(await until(() => same(stale.values(), ['192.0.2.2']), 10_000));
  });

  await t.test('F05 (d): bans survive a full Redis that evicts', async (t) => {
    const { values, book } = await gate(t, port);
    const many = Array.from({ length: 40 }, (_, n) => `10.0.0.${n}`).sort();
    await ban(book, ...many);
    t.ok(await until(() => values().length === 40));
    for (const policy of ['allkeys-lru', 'allkeys-random']) {
      await fill(client, policy);
      const pipeline = client.pipeline();
      for (let key = 0; key < 6000; key++) pipeline.set(`more-${policy}-${key}`, 'x'.repeat(1000), 'EX', 600);
      await pipeline.exec();
      t.ok(Number(/evicted_keys:(\d+)/.exec(await client.info('stats'))?.[1]) > 1000, `${policy}: it evicted`);
      t.same(values(), many, `${policy}: all in force`);
      await client.config('SET', 'maxmemory', '0');
      const there = async () => (await book.read()).bans.map(({ subject }) => subject.value).sort();
      t.ok(await until(async () => same(await there(), many)), `${policy}: all in the book again`);
    }
  });
});
