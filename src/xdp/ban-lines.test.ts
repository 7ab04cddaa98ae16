import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import t from 'tap';
import { saveBook } from '../controls/book-file.js';
import { FOREVER_MS, readBanLines } from './ban-lines.js';
import { banOf } from './testing.js';

const NOW = Date.UTC(2026, 0, 1);

t.test('bans are read in the long form and in the short form', (t) => {
  const ban = banOf('192.0.2.1');
  const text = [
    '# by hand',
    JSON.stringify(ban),
    '',
    '{"net":"203.0.113.0/24","until":"2026-01-02T00:00:00Z","reason":"listed by hand"}',
    '{"net":"198.51.100.7","until":1796040000000}',
    '{"net":"198.51.100.8"}',
    '{"end":4}',
  ].join('\n');
  const { bans, problem } = readBanLines(text, NOW);
  t.equal(problem, undefined);
  t.same(bans[0], ban);
  t.match(bans[1], {
    subject: { kind: 'network', value: '203.0.113.0/24' },
    mode: 'enforce',
    untilMs: Date.UTC(2026, 0, 2),
    reason: 'listed by hand',
  });
  t.equal(bans[2]?.untilMs, 1_796_040_000_000);
  t.equal(bans[3]?.untilMs, FOREVER_MS);
  t.same(readBanLines('{"end":0}\n', NOW), { bans: [], problem: undefined }, 'no bans, said so');
  t.end();
});

t.test('a short form that is empty, cut at a line end or goes on after its foot is not believed', (t) => {
  const lines = ['{"net":"192.0.2.1"}', '{"net":"192.0.2.2"}', '{"end":2}'];
  t.equal(readBanLines(lines.join('\n'), NOW).bans.length, 2);
  const cases: [text: string, problem: RegExp][] = [
    ['', /^it is empty; .*\{"end":0\}/],
    ['\n# nothing\n', /^it is empty/],
    [lines.slice(0, 1).join('\n'), /^it is cut off/],
    [lines.slice(0, 2).join('\n'), /^it is cut off/],
    [lines.slice(1).join('\n'), /^its foot counts 2 entries, there are 1/],
    [[...lines, lines[0]].join('\n'), /^line 4 comes after the foot/],
    [[...lines, lines[2]].join('\n'), /^line 4 comes after the foot/],
  ];
  for (const [text, problem] of cases) {
    const read = readBanLines(text, NOW);
    t.match(read.problem, problem, JSON.stringify(text));
    t.equal(read.bans.length, 0);
  }
  t.end();
});

t.test('an end in seconds or of null is refused with the number of its line', (t) => {
  for (const [until, problem] of [
    ['1796040000', /^line 2 has an until of 1796040000, which looks like seconds/],
    ['null', /^line 2 has an until that is neither/],
    ['"1796040000"', /^line 2 has an until that is neither/],
    ['"soon"', /^line 2 has an until that is neither/],
    ['true', /^line 2 has an until that is neither/],
  ] as const) {
    const text = `{"net":"192.0.2.9"}\n{"net":"192.0.2.1","until":${until}}\n{"end":2}`;
    t.match(readBanLines(text, NOW).problem, problem, until);
  }
  t.end();
});

t.test("the gate's own file is read whole or not at all", async (t) => {
  const folder = await mkdtemp(join(tmpdir(), 'tidegate-lines-'));
  t.teardown(() => rm(folder, { recursive: true, force: true }));
  const file = join(folder, 'bans.jsonl');
  const bans = [banOf('192.0.2.1'), banOf('192.0.2.2', { mode: 'watch' })];
  const seen = [0, 0, 5] as const;
  await saveBook(file, {
    version: 9,
    bans,
    ledger: [['network:192.0.2.1', { strikes: 1, struckMs: 1, seen, pardonMs: 0 }, 99]],
    audit: [{ timeMs: 1, what: 'ban', subject: 'network:192.0.2.1', actor: 'a', reason: 'r' }],
  });
  const text = await readFile(file, 'utf8');
  t.same(readBanLines(text, NOW).bans, bans);
  const lines = text.trimEnd().split('\n');
  for (let count = 1; count < lines.length; count++) {
    const { bans: some, problem } = readBanLines(lines.slice(0, count).join('\n'), NOW);
    t.match(problem, /^it is cut off/, `after line ${count}`);
    t.equal(some.length, 0);
  }
  const short = [lines[0], ...lines.slice(2)].join('\n');
  t.equal(readBanLines(short, NOW).problem, 'its foot counts 4 entries, there are 3', 'a line is missing');
  t.match(readBanLines(lines.slice(1).join('\n'), NOW).problem, /whose head is missing/);
  t.match(readBanLines('', NOW).problem, /^it is empty/);
});

t.test('a line that should be a ban and is none spoils the file', (t) => {
  const bad = [
    '{"net":5}',
    JSON.stringify({ ...banOf('192.0.2.1'), mode: 'maybe' }),
    JSON.stringify({ ...banOf('192.0.2.1'), untilMs: '5' }),
    JSON.stringify({ ...banOf('192.0.2.1'), subject: null }),
    '{"net":"192.0.2.1"',
    '{}',
    '7',
  ];
  for (const line of bad) {
    const { bans, problem } = readBanLines(`{"net":"192.0.2.9"}\n${line}`, NOW);
    t.equal(problem, 'line 2 is no ban', line);
    t.equal(bans.length, 0);
  }
  t.end();
});
