import t from 'tap';
import { createEntries } from './entries.js';

type Entry = { lastMs: number; count: number };
const RULES = {
  max: 100,
  idleMs: 1_000,
  lastMs: (entry: Entry) => entry.lastMs,
  worth: (entry: Entry) => entry.count,
};
const read = ([lastMs, count]: readonly unknown[]) => ({ lastMs: Number(lastMs), count: Number(count) });
const write = ({ lastMs, count }: Entry) => [lastMs, count];

t.test('a flood of new names pushes out new names, not those that did something', async (test) => {
  const entries = createEntries<Entry>(RULES);
  for (let at = 0; at < 50; at++) entries.add(`busy-${at}`, { lastMs: 0, count: 9 }, 0);
  for (let at = 0; at < 10_000; at++) entries.add(`new-${at}`, { lastMs: 10, count: 1 }, 10);
  test.ok(entries.size() <= 100);
  test.equal(entries.dropped() + entries.size(), 10_050);
  for (let at = 0; at < 50; at++) test.ok(entries.get(`busy-${at}`, 10));
  test.ok(entries.get('new-9999', 10));
});

t.test('the idle ones are unknown, and go first without being counted', async (test) => {
  const entries = createEntries<Entry>(RULES);
  for (let at = 0; at < 100; at++) entries.add(`old-${at}`, { lastMs: 0, count: 31 }, 0);
  test.equal(entries.get('old-1', 1_001), undefined);
  entries.add('new', { lastMs: 1_001, count: 0 }, 1_001);
  test.equal(entries.size(), 1);
  test.equal(entries.dropped(), 0);
});

t.test('saved and opened, it goes on as if nothing had been', async (test) => {
  const one = createEntries<Entry>(RULES);
  for (let at = 0; at < 150; at++) one.add(`n${at}`, { lastMs: at, count: at % 7 }, at);
  const saved: unknown = JSON.parse(JSON.stringify(one.save(write)));
  const two = createEntries<Entry>(RULES, { from: saved as never, read });
  for (let at = 150; at < 400; at++) {
    for (const entries of [one, two]) entries.add(`n${at}`, { lastMs: at, count: at % 7 }, at);
  }
  test.same(two.save(write), one.save(write));
  test.throws(() => createEntries<Entry>(RULES, { from: 'nonsense', read }));
  test.throws(() => createEntries<Entry>(RULES, { from: { dropped: 0, sweptMs: 0, entries: [7] }, read }));
});
