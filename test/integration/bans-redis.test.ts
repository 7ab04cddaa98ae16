/** The book of bans in a real Redis: the same answers as in memory, in Cluster too; what is lost heals. */
import t from 'tap';
import type { Ban } from '../../src/controls/ban.js';
import { bookSuite, found, network, RULES, told } from '../../src/controls/testing.js';
import { BAN_CHANNEL } from '../../src/controls/ban-script.js';
import { redisSection } from '../../src/redis/config.js';
import { redisSettings } from '../../src/redis/settings.js';
import { subscribeRedis } from '../../src/redis/subscriber.js';
import { redisBook } from '../support/bans.js';
import { until } from '../support/case.js';
import { redisMissing, startRedis } from '../support/redis.js';
import { startCluster } from '../support/redis-cluster.js';

t.test('the book in Redis answers as the one in memory', { skip: redisMissing }, async (t) => {
  const server = await startRedis();
  t.teardown(() => server.stop());
  const section = { url: `redis://127.0.0.1:${server.port}`, keyPrefix: 'shop:' };
  await bookSuite(t, async (t, rules, { nowMs }) => {
    await server.client.flushall();
    return redisBook(t, section, { rules, nowMs });
  });
  const keys = await server.client.keys('*');
  t.ok(keys.length >= 5);
  t.ok(
    keys.every((key) => key.startsWith('shop:{bans}:')),
    'all keys have the prefix and one slot',
    { keys },
  );
});

t.test('a Redis Cluster', { skip: redisMissing }, async (t) => {
  const cluster = await startCluster();
  t.teardown(() => cluster.stop());
  const book = await redisBook(t, { cluster: cluster.addresses, keyPrefix: 'shop:' });
  const settings = redisSettings(redisSection.parse({ cluster: cluster.addresses })!, { baseDir: '/' });
  const heard: string[] = [];
  const line = subscribeRedis(settings, `shop:${BAN_CHANNEL}`, (text) => void heard.push(text));
  t.teardown(() => line.close());
  t.ok(await until(line.listening));
  const now = Date.now();
  t.match(await book.ban([found(now), told(60_000, { subject: network('192.0.2.1') })]), [
    { result: 'made' },
    { result: 'made' },
  ]);
  t.match(await book.ban([found(now)]), [{ result: 'same' }]);
  t.equal((await book.read()).bans.length, 2);
  const at = (n: number) => network(`10.0.${n >> 8}.${n & 255}`);
  const many = Array.from({ length: 990 }, (_, n) => told(60_000, { subject: at(n) }));
  t.ok((await book.ban(many)).every(({ result }) => result === 'made'));
  t.equal((await book.read()).bans.length, 992, 'several pages');
  t.equal((await book.unban(network('192.0.2.1'), { actor: 'ann', reason: 'x' }))?.strikes, 0);
  t.equal((await book.audit(10)).length, 10);
  t.ok(await until(() => heard.length === 993), 'changes are told');
});

t.test("Redis' clock decides", { skip: redisMissing }, async (t) => {
  const server = await startRedis();
  t.teardown(() => server.stop());
  const section = { url: `redis://127.0.0.1:${server.port}` };
  const book = await redisBook(t, section, { rules: { ...RULES, base: 300 } });
  const [outcome] = await book.ban([found(Date.now())]);
  const { ban } = outcome!;
  t.ok(Math.abs(ban!.sinceMs - Date.now()) < 60_000);
  t.equal(ban!.untilMs - ban!.sinceMs, 300);
  await new Promise((resolve) => setTimeout(resolve, 350));
  t.same((await book.read()).bans, [], 'over, though nothing has swept');
  t.equal(await server.client.hlen('{bans}:held'), 3);
  await book.sweep();
  t.equal(await server.client.hlen('{bans}:held'), 2, 'the sweep gives memory back');
  t.equal(await server.client.zcard('{bans}:ends'), 0);
});

t.test('what is over is not put back', { skip: redisMissing }, async (t) => {
  const server = await startRedis();
  t.teardown(() => server.stop());
  const clock = { at: 1_000_000, nowMs: () => clock.at };
  const section = { url: `redis://127.0.0.1:${server.port}` };
  const book = await redisBook(t, section, { nowMs: clock.nowMs });
  const answer = async (ban: Ban | undefined) => (await book.putBack([ban!], 'gate:test'))[0];
  const [first] = await book.ban([told(60_000)]);
  t.equal(await answer(first!.ban), 'held');
  clock.at += 10;
  const [second] = await book.ban([told(20)]);
  clock.at += 30;
  t.equal(await answer(second!.ban), 'ended');
  t.equal(await answer(first!.ban), 'ended', 'what replaced it is over');
  clock.at += 10;
  const [third] = await book.ban([told(60_000)]);
  clock.at += 10;
  await book.unban(third!.ban!.subject, { actor: 'ann', reason: 'x' });
  t.equal(await answer(third!.ban), 'lifted');
  await server.client.flushall();
  t.equal(await answer(third!.ban), 'restored', 'nobody remembers');
  t.equal(await book.lift(new Map([['network:198.51.100.7', clock.at]])), 1, 'until somebody does');
  t.same((await book.read()).bans, []);
});

t.test('a full Redis takes no bans, says so, and still tells them', { skip: redisMissing }, async (t) => {
  const server = await startRedis();
  t.teardown(() => server.stop());
  const book = await redisBook(t, { url: `redis://127.0.0.1:${server.port}` });
  await book.ban([told(60_000)]);
  await server.client.config('SET', 'maxmemory', '1');
  await t.rejects(book.ban([told(60_000, { subject: network('192.0.2.1') })]), { code: 'REDIS_OOM' });
  t.equal((await book.read()).bans.length, 1);
  await server.client.config('SET', 'maxmemory', '0');
  t.match(await book.ban([told(60_000, { subject: network('192.0.2.1') })]), [{ result: 'made' }]);
});

t.test('each key can be lost by itself, and nothing stays broken', { skip: redisMissing }, async (t) => {
  const server = await startRedis();
  t.teardown(() => server.stop());
  const section = { url: `redis://127.0.0.1:${server.port}` };
  const book = await redisBook(t, section, { rules: { ...RULES, most: 4 } });
  for (const key of ['held', 'ends', 'order', 'ledger', 'forget', 'audit']) {
    await server.client.flushall();
    const since = Date.now();
    const modes = ['watch', 'enforce', 'observe'] as const;
    const asks = modes.map((mode, n) => found(since, { subject: network(`10.0.0.${n}`), mode }));
    await book.ban([...asks, told(60_000, { subject: network('10.0.0.9') })]);
    const before = await book.readAll();
    await server.client.del(`{bans}:${key}`);
    const after = await book.readAll();
    t.equal(after.bans.length, key === 'held' ? 0 : 4, `${key}: what was banned`);
    t.equal(after.epoch === before.epoch, key !== 'held', `${key}: the loss of the bans shows`);
    const more = ['10.0.1.1', '10.0.1.2'].map((ip) => found(since + 1, { subject: network(ip) }));
    t.match(await book.ban(more), [{ result: 'made' }, { result: 'made' }], `${key}: bans go on`);
    const values = (await book.read()).bans.map(({ subject }) => subject.value).sort();
    const wanted = ['10.0.0.1', '10.0.0.9', '10.0.1.1', '10.0.1.2'];
    t.same(values, key === 'held' ? wanted.slice(2) : wanted, `${key}: the least severe gave way`);
    const held = await server.client.hlen('{bans}:held');
    t.equal(await server.client.zcard('{bans}:ends'), held - 2, `${key}: no leftovers`);
    t.equal(await server.client.zcard('{bans}:order'), held - 2);
    t.equal(await server.client.zcard('{bans}:forget'), (await server.client.hlen('{bans}:ledger')) - 1);
  }
});
