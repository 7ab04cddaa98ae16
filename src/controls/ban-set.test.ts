import t from 'tap';
import { channelPair } from '../core/channel.js';
import type { RequestFacts } from '../core/request.js';
import { createBanSet, findingsOf, type BanRow } from './ban-set.js';
import { createBanJudge } from './judge-bans.js';
import { createMemoryBook } from './memory-book.js';
import { followBans, serveBans } from './serve-bans.js';

type Given = Partial<{ kind: BanRow[0]; mode: BanRow[2]; untilMs: number }>;
const row = (value: string, given: Given = {}): BanRow => [
  given.kind ?? 'network',
  value,
  given.mode ?? 'enforce',
  'failed logins',
  given.untilMs ?? 2000,
];
const factsOf = (ip: string, cookie = ''): RequestFacts =>
  ({ client: { ip }, headers: new Map([['cookie', cookie]]) }) as unknown as RequestFacts;

t.test('expiry is judged when asked, whether anything has swept or not', async (t) => {
  const set = createBanSet();
  set.put(row('198.51.100.7'));
  t.equal(set.ofAddress('198.51.100.7', 1999)?.enforced, true);
  t.equal(set.ofAddress('198.51.100.7', 2000), undefined);
  t.equal(set.size, 1);
  set.sweep(2000);
  t.equal(set.size, 0);
});

t.test('an enforced ban on a wide network is stronger than an observed one inside, and outlasts it', async (t) => {
  const set = createBanSet();
  set.put(row('198.51.100.7', { mode: 'observe' }));
  t.equal(set.ofAddress('198.51.100.7', 1)?.enforced, false);
  set.put(row('198.51.100.0/24', { untilMs: 1000 }));
  t.equal(set.ofAddress('198.51.100.7', 1)?.enforced, true);
  t.equal(set.ofAddress('198.51.100.7', 1500)?.enforced, false);
});

t.test('the finding tells until when and why, and that it is only observed', async (t) => {
  const set = createBanSet();
  set.put(row('198.51.100.7'));
  set.put(row('198.51.100.8', { mode: 'observe' }));
  t.match(findingsOf(set.ofAddress('198.51.100.7', 1)!), [
    { id: 'BAN', kind: 'deny', points: 100, message: 'Banned until 1970-01-01T00:00:02.000Z: failed logins.' },
  ]);
  t.match(findingsOf(set.ofAddress('198.51.100.8', 1)!), [{ observed: true, message: /^Would be banned/ }]);
});

t.test('a session is only read where a session is banned', async (t) => {
  const set = createBanSet();
  let reads = 0;
  const session = (facts: RequestFacts): readonly (string | undefined)[] => {
    reads++;
    return ['first', facts.headers.get('cookie')];
  };
  const judge = createBanJudge(() => set, { nowMs: () => 1, readers: { session } });
  t.same(judge(factsOf('192.0.2.1', 'abc')), []);
  set.put(row('198.51.100.7'));
  t.same(judge(factsOf('192.0.2.1', 'abc')), []);
  t.equal(reads, 0);
  set.put(row('abc', { kind: 'session' }));
  t.match(judge(factsOf('192.0.2.1', 'abc')), [{ id: 'BAN' }]);
  t.same(judge(factsOf('192.0.2.1', 'def')), []);
  t.match(judge(factsOf('198.51.100.7', 'def')), [{ id: 'BAN' }]);
  t.equal(reads, 2);
  set.remove({ kind: 'session', value: 'abc' });
  t.same(judge(factsOf('192.0.2.1', 'abc')), []);
  t.equal(set.has('session'), false);
});

const rules = { base: 900_000, factor: 4, max: 1e9, memory: 1e10, most: 5000, ledger: 10_000, audit: 100 };
const ask = (value: string, mode: 'enforce' | 'watch' = 'enforce') =>
  ({ subject: { kind: 'network', value }, mode, reason: 'x', actor: 'ann', durationMs: 60_000 }) as const;

t.test('workers get the whole list when they ask, then each change', async (t) => {
  const book = createMemoryBook({ clock: { nowMs: () => 1000 }, rules: () => rules });
  const server = serveBans(book);
  t.teardown(() => server.close());
  await book.ban(Array.from({ length: 2500 }, (_, n) => ask(`10.0.${n >> 8}.${n & 255}`)));
  await book.ban([ask('192.0.2.9', 'watch')]);
  const [supervisor, worker] = channelPair();
  server.attach(supervisor);
  const { set: bans } = followBans(worker, { nowMs: () => 1000 });
  await new Promise((resolve) => setTimeout(resolve, 30));
  t.equal(bans().size, 2500, 'what is only watched is not told');
  await book.ban([ask('192.0.2.1')]);
  await book.unban({ kind: 'network', value: '10.0.0.5' }, { actor: 'ann', reason: 'mistake' });
  for (let wait = 0; wait < 200 && bans().ofAddress('192.0.2.1', 1000) === undefined; wait++)
    await new Promise((resolve) => setTimeout(resolve, 10));
  t.ok(bans().ofAddress('192.0.2.1', 1000));
  t.equal(bans().ofAddress('10.0.0.5', 1000), undefined);
});

t.test('a line that took no message gets the whole list again', async (t) => {
  const book = createMemoryBook({ clock: { nowMs: () => 1000 }, rules: () => rules });
  const server = serveBans(book);
  t.teardown(() => server.close());
  const [supervisor, worker] = channelPair();
  let deaf = false;
  const send = (topic: string, body: unknown): boolean => !deaf && supervisor.send(topic, body);
  const line = { ...supervisor, send };
  server.attach(line);
  const { set: bans } = followBans(worker, { nowMs: () => 1000 });
  await new Promise((resolve) => setTimeout(resolve, 30));
  deaf = true;
  await book.ban([ask('192.0.2.1')]);
  await new Promise((resolve) => setTimeout(resolve, 50));
  t.equal(bans().size, 0);
  deaf = false;
  for (let wait = 0; wait < 500 && bans().size === 0; wait++)
    await new Promise((resolve) => setTimeout(resolve, 10));
  t.equal(bans().size, 1);
});
