import { appendFileSync, existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
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
  t.equal((await loadBook(path)).state, undefined, 'no file, no book');
  const book = newBook();
  await book.ban([found(999_000), told(60_000, { subject: { kind: 'session', value: 'a:b' } })]);
  await book.unban(network('198.51.100.7'), { actor: 'ann', reason: 'mistake' });
  await book.note({ what: 'held-back', subject: 'pattern', actor: 'detector:x', reason: 'too wide' });
  await saveBook(path, book.state());
  t.same((await loadBook(path)).state, book.state());
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
  t.equal((await loadBook(path)).state?.bans.length, 1);
  await book.ban([told(60_000, { subject: network('192.0.2.1') })]);
  await kept.close();
  t.equal((await loadBook(path)).state?.bans.length, 2);
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

/** Until `is`, at most ten seconds. */
async function until(is: () => boolean | Promise<boolean>): Promise<boolean> {
  for (let wait = 0; wait < 1000; wait++) {
    if (await is()) return true;
    await new Promise((done) => setTimeout(done, 10));
  }
  return false;
}

t.test('a change is on disk soon, however long the whole takes to be saved', async (t) => {
  const path = join(t.testdir(), 'bans.jsonl');
  const book = newBook();
  await book.ban([told(60_000, { subject: network('192.0.2.1') })]);
  await saveBook(path, book.state());
  const state = (): never => {
    throw new Error('not now');
  };
  const kept = keepBook({ ...book, state }, path, () => undefined);
  t.teardown(() => kept.close());
  await book.ban([told(60_000, { subject: network('192.0.2.2') })]);
  await book.unban(network('192.0.2.1'), { actor: 'ann', reason: 'mistake' });
  await until(async () => (await loadBook(path)).journalled > 0);
  const loaded = (await loadBook(path)).state;
  t.same(loaded?.bans.map(({ subject }) => subject.value), ['192.0.2.2']);
  const pardoned = loaded?.ledger.find(([key]) => key === 'network:192.0.2.1');
  t.equal(pardoned?.[1].pardonMs, clock.at, 'what was lifted stays lifted');
  t.match(loaded?.audit.map(({ what }) => what), ['ban', 'ban', 'unban'], 'and the audit trail is whole');
});

t.test('a torn line of a journal is a warning, and costs that line alone', async (t) => {
  const path = join(t.testdir(), 'bans.jsonl');
  const book = newBook();
  await book.ban([told(60_000, { subject: network('192.0.2.1') })]);
  await saveBook(path, book.state(), 3);
  const [first] = book.state().bans;
  const ban = (value: string) => JSON.stringify({ ban: { ...first, subject: network(value) } });
  writeFileSync(`${path}.journal-2`, `${ban('192.0.2.66')}\n`);
  writeFileSync(`${path}.journal-3`, `${ban('192.0.2.2')}\n${ban('192.0.2.67').slice(0, 50)}`);
  writeFileSync(`${path}.journal-10`, `${ban('192.0.2.3')}\n{"lifted":"network:192.0.2.1"}\n`);
  const fresh = newBook();
  const lines: string[] = [];
  const kept = keepBook(fresh, path, (_level, line) => void lines.push(line));
  await kept.load();
  const values = async () => (await fresh.read()).bans.map(({ subject }) => subject.value);
  t.same(await values(), ['192.0.2.2', '192.0.2.3'], 'in order, without those that the whole file holds');
  t.match(lines, [/some may be lost: STATE_UNREADABLE.*line 2 of 2 damaged/]);
  appendFileSync(`${path}.journal-3`, 'x');
  await fresh.ban([told(60_000, { subject: network('192.0.2.4') })]);
  await kept.close();
  t.same(readdirSync(join(path, '..')), ['bans.jsonl'], 'the next whole save replaces them');
  const again = newBook();
  await keepBook(again, path, (_level, line) => void lines.push(line)).load();
  t.equal((await again.read()).bans.length, 3);
  t.equal(lines.length, 1);
});

t.test('a file that cannot be believed takes the journals beside it not along', async (t) => {
  const path = join(t.testdir(), 'bans.jsonl');
  const book = newBook();
  await book.ban([told(60_000)]);
  writeFileSync(path, 'hello\n');
  writeFileSync(`${path}.journal-1`, `${JSON.stringify({ ban: book.state().bans[0] })}\n`);
  const fresh = newBook();
  const lines: string[] = [];
  await keepBook(fresh, path, (_level, line) => void lines.push(line)).load();
  t.equal((await fresh.read()).bans.length, 1);
  t.match(lines, [/some may be lost/]);
});
