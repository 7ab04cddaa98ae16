import t from 'tap';
import { createMemoryBook } from './memory-book.js';
import { bookSuite, found, network, RULES, told } from './testing.js';

t.test('the book in memory', (t) =>
  bookSuite(t, (_t, rules, clock) => createMemoryBook({ clock, rules: () => rules })),
);

t.test('each change is told once, and what changed nothing is not', async (t) => {
  const book = createMemoryBook({ clock: { nowMs: () => 5000 }, rules: () => ({ ...RULES, most: 1 }) });
  const changes: string[] = [];
  const end = book.listen((change) => changes.push(change.kind));
  await book.ban([found(1, { mode: 'watch' })]);
  await book.ban([found(1, { mode: 'watch' })]);
  t.same(changes, ['added']);
  await book.ban([told(1000, { subject: network('192.0.2.1') })]);
  t.same(changes, ['added', 'removed', 'added'], 'one gave way');
  await book.unban(network('192.0.2.1'), { actor: 'ann', reason: 'x' });
  t.equal(changes.at(-1), 'removed');
  end();
  await book.ban([told(1000)]);
  t.equal(changes.length, 4);
  t.same(book.stats(), { gaveWay: 1, full: 0, version: 5, forgotten: 0 });
});

t.test('a book goes on from what another one had', async (t) => {
  const clock = { at: 1_000_000, nowMs: () => clock.at };
  const first = createMemoryBook({ clock, rules: () => RULES });
  await first.ban([found(999_000), told(50, { subject: network('192.0.2.1') })]);
  const saved = first.state();
  clock.at += 100;
  const second = createMemoryBook({ clock, rules: () => RULES });
  second.restore(saved);
  const values = (await second.read()).bans.map(({ subject }) => subject.value);
  t.same(values, ['198.51.100.7'], 'what is over is not');
  t.equal((await second.audit(10)).length, 2);
  t.match(await second.ban([found(999_000)]), [{ result: 'same' }]);
  clock.at += 2000;
  t.match(await second.ban([found(clock.at)]), [{ result: 'made', ban: { strikes: 2 } }]);
});
