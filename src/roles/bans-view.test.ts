import t from 'tap';
import { configSchema } from '../config/schema.js';
import { subjectKey, type Subject } from '../controls/ban.js';
import type { BanBook } from '../controls/ban-book-contract.js';
import { createMemoryBook } from '../controls/memory-book.js';
import { systemClock } from '../core/clock.js';
import { bansView } from './bans-view.js';

const sites = [{ name: 'any', hosts: ['any.invalid'], upstreams: ['http://127.0.0.1:1'] }];
const config = { ...configSchema.parse({ sites }), baseDir: '.' };
const ANN = { actor: 'ann', peer: '127.0.0.1' };
const order = { for: '1h', reason: 'test', observe: false, force: false };

function open(adjust: (book: BanBook) => Partial<BanBook> = () => ({})) {
  const book = createMemoryBook({ clock: systemClock, rules: () => config.bans });
  const view = bansView({
    config: () => config,
    desk: { book: { ...book, ...adjust(book) }, inForce: () => [] },
    hashKey: () => 'k'.repeat(32),
    note: () => undefined,
  });
  return { book, view };
}

t.test('an address behind NAT64 is banned as the IPv4 address it stands for', async (t) => {
  const { view } = open();
  const { ban, notes } = await view.ban({ address: '64:ff9b::198.18.1.1', ...order }, ANN);
  t.equal(subjectKey(ban.subject), 'network:198.18.1.1');
  t.match(notes, [/198\.18\.1\.1 looks behind NAT64/]);
  const refused = { message: /everybody/ };
  await t.rejects(view.ban({ address: '64:ff9b::/64', ...order }, ANN), refused);
  await t.rejects(view.ban({ address: '64:ff9b::/96', ...order }, ANN), refused);
  await view.unban({ address: '64:ff9b::198.18.1.1' }, { ...ANN, reason: 'test' });
});

t.test('a fingerprint that no request can have is refused; one that none has yet is told', async (t) => {
  const { view, book } = open();
  for (const ja4 of ['nonsense', 't13d1516h2_8daaf6152771', 'x13d1516h2_8daaf6152771_b186095e22b6'])
    await t.rejects(view.ban({ ja4, ...order }, ANN), { code: 'BAN_REFUSED', remedy: /JA4/ }, ja4);
  for (const headers of ['zzzz', 'sixteen letters!'])
    await t.rejects(view.ban({ headers, ...order }, ANN), { code: 'BAN_REFUSED' }, headers);
  const { notes } = await view.ban({ ja4: 't13d1516h2_8daaf6152771_b186095e22b6', ...order }, ANN);
  t.match(notes, [/no effect/]);
  t.same((await view.ban({ headers: 'A-_4567890abcdef', ...order }, ANN)).notes, []);
  const old: Subject = { kind: 'headers', value: 'zzzz' };
  await book.ban([{ subject: old, mode: 'enforce', reason: 'r', actor: 'ann', durationMs: 60_000 }]);
  t.equal((await view.unban({ headers: 'zzzz' }, { ...ANN, reason: 'x' })).subject.value, 'zzzz');
});

t.test('a ban that is made while its lifting is asked for is lifted', async (t) => {
  const subject: Subject = { kind: 'network', value: '198.18.21.1' };
  let asked = 0;
  const { view, book } = open((book) => ({
    async unban(which, by) {
      if (asked++ > 0) return book.unban(which, by);
      const lifted = await book.unban(which, by);
      await book.ban([{ subject, mode: 'enforce', reason: 'r', actor: 'bob', durationMs: 60_000 }]);
      return lifted;
    },
  }));
  const lifted = await view.unban({ address: '198.18.21.1' }, { ...ANN, reason: 'x' });
  t.equal(lifted.actor, 'bob');
  t.equal((await book.read()).bans.length, 0);
});

t.test('lifting what is not banned tells what it lies in', async (t) => {
  const { view } = open();
  await t.rejects(view.unban({ address: '198.18.21.1' }, { ...ANN, reason: 'x' }), { code: 'UNBAN_NOTHING' });
  await view.ban({ address: '198.18.21.0/24', ...order }, ANN);
  await t.rejects(view.unban({ address: '198.18.21.1' }, { ...ANN, reason: 'x' }), {
    code: 'UNBAN_NOTHING',
    remedy: /it lies in 198\.18\.21\.0\/24/,
  });
});
