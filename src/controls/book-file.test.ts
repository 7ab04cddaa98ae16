import { existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { loadBook, saveBook } from './book-file.js';
import { keepBook } from './keep-book.js';
import { createMemoryBook } from './memory-book.js';
import { found, network, RULES, told } from './testing.js';

const clock = { at: 1_000_000, nowMs: () => clock.at };
const newBook = () => createMemoryBook({ clock, rules: () => RULES });

t.test('a book is read back as it was saved: bans, ledger, audit trail', async (t) => {
  const path = join(t.testdir(), 'deep', 'bans.jsonl');
  t.equal(await loadBook(path), undefined, 'no file, no book');
  const book = newBook();
  await book.ban([found(999_000), told(60_000, { subject: { kind: 'session', value: 'a:b' } })]);
  await book.unban(network('198.51.100.7'), { actor: 'ann', reason: 'mistake' });
  await book.note({ what: 'held-back', subject: 'pattern', actor: 'detector:x', reason: 'too wide' });
  await saveBook(path, book.state());
  t.same(await loadBook(path), book.state());
  t.same(readdirSync(join(path, '..')), ['bans.jsonl'], 'no draft stays');
});

t.test('a file that cannot be believed is a warning, set aside, and its bans are not taken', async (t) => {
  const book = newBook();
  await book.ban([told(60_000), told(60_000, { subject: network('192.0.2.1') })]);
  const path = join(t.testdir(), 'bans.jsonl');
  await saveBook(path, book.state());
  const good = readFileSync(path, 'utf8').trimEnd().split('\n');
  const damages: Record<string, string> = {
    'cut off': good.slice(0, -1).join('\n'),
    'a line missing': [good[0], ...good.slice(2)].join('\n'),
    'a line damaged': [good[0], good[1]!.slice(0, 40), ...good.slice(2)].join('\n'),
    'not ours': '{"kind":"something"}\n{"end":0}\n',
    'a ban without an end': good.join('\n').replace('"untilMs"', '"until"'),
    'no JSON': 'hello\n',
    'null': 'null\nnull\n',
    empty: '',
  };
  for (const [name, text] of Object.entries(damages)) {
    writeFileSync(path, text);
    const lines: string[] = [];
    const fresh = newBook();
    const kept = keepBook(fresh, path, (_level, line) => void lines.push(line));
    await kept.load();
    await kept.close();
    t.match(lines, [/there were some, and none is in force now: STATE_UNREADABLE/], name);
    t.equal((await fresh.read()).bans.length, 0, `${name}: nothing is half believed`);
    t.ok(existsSync(`${path}.damaged`), `${name}: kept for a look`);
  }
});

t.test('what changes is saved soon, and at the end', async (t) => {
  const path = join(t.testdir(), 'bans.jsonl');
  const book = newBook();
  const kept = keepBook(book, path, () => undefined);
  await kept.load();
  await book.ban([told(60_000)]);
  for (let wait = 0; wait < 1000 && !existsSync(path); wait++)
    await new Promise((done) => setTimeout(done, 10));
  t.equal((await loadBook(path))?.bans.length, 1);
  await book.ban([told(60_000, { subject: network('192.0.2.1') })]);
  await kept.close();
  t.equal((await loadBook(path))?.bans.length, 2);
});

t.test('a folder that cannot be written is told, and bans go on', async (t) => {
  const folder = t.testdir({ file: '' });
  const lines: string[] = [];
  const book = newBook();
  const kept = keepBook(book, join(folder, 'file', 'bans.jsonl'), (_level, line) => void lines.push(line));
  await book.ban([told(60_000)]);
  await kept.close();
  t.match(lines, [/cannot be saved/]);
  t.equal((await book.read()).bans.length, 1);
});
