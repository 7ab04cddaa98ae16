import t from 'tap';
import { FOREVER_MS, readBanLines } from './ban-lines.js';
import { banOf } from './testing.js';

const NOW = Date.UTC(2026, 0, 1);

t.test('bans are read in the long form, under a key and in the short form', (t) => {
  const ban = banOf('192.0.2.1');
  const text = [
    JSON.stringify(ban),
    JSON.stringify({ what: 'held', ban: { ...ban, id: 'b2' } }),
    '{"net":"203.0.113.0/24","until":"2026-01-02T00:00:00Z","reason":"listed by hand"}',
    '{"net":"198.51.100.7","until":5}',
    '{"net":"198.51.100.8"}',
  ].join('\n');
  const { bans, unreadable } = readBanLines(text, NOW);
  t.equal(unreadable, 0);
  t.same(bans[0], ban);
  t.equal(bans[1]?.id, 'b2');
  t.match(bans[2], {
    subject: { kind: 'network', value: '203.0.113.0/24' },
    mode: 'enforce',
    untilMs: Date.UTC(2026, 0, 2),
    reason: 'listed by hand',
  });
  t.equal(bans[3]?.untilMs, 5);
  t.equal(bans[4]?.untilMs, FOREVER_MS);
  t.end();
});

t.test('empty lines, comments and entries of another kind are passed over', (t) => {
  const text = '\n# by hand\n{"version":7}\n["network:192.0.2.1",{},5]\n\n';
  t.same(readBanLines(text, NOW), { bans: [], unreadable: 0, first: 0 });
  t.end();
});

t.test('what should be a ban and is none is counted, with the first line', (t) => {
  const bad = [
    '{"net":5}',
    '{"net":"192.0.2.1","until":"soon"}',
    JSON.stringify({ ...banOf('192.0.2.1'), mode: 'maybe' }),
    JSON.stringify({ ...banOf('192.0.2.1'), untilMs: '5' }),
    JSON.stringify({ ...banOf('192.0.2.1'), subject: null }),
    '{"net":"192.0.2.1"',
    '7',
  ];
  const { bans, unreadable, first } = readBanLines(['{"net":"192.0.2.9"}', ...bad].join('\n'), NOW);
  t.equal(bans.length, 1);
  t.equal(unreadable, bad.length);
  t.equal(first, 2);
  t.end();
});
