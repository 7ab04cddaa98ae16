import t from 'tap';
import { createUnusedWatch } from './unused.js';

t.test('many unused events are told once a minute, with counts and nodes', (t) => {
  let now = 0;
  const lines: string[] = [];
  const watch = createUnusedWatch({ nowMs: () => now, warn: (text) => void lines.push(text) });
  for (let n = 0; n < 300; n++, now += 10) watch.late(n % 10 === 0 ? 'b' : 'a', 'fast');
  const nodes = 'late ones of a (90), b (10), the newest is of fast (100)';
  t.same(lines, [`100 events went unused within 1 s: late (100); ${nodes}`]);
  now = 61_000;
  watch.rejected('version');
  t.equal(lines.length, 2);
  t.match(lines[1], /^201 events went unused within .* late \(200\), version \(1\);/);
  t.end();
});

t.test('a few are nothing to tell, and those of another kind no loss', (t) => {
  let now = 0;
  const lines: string[] = [];
  const watch = createUnusedWatch({ nowMs: () => now, warn: (text) => void lines.push(text) });
  for (let n = 0; n < 1_000; n++, now += 1_000) watch.rejected('shape');
  for (let n = 0; n < 1_000; n++) watch.rejected('other');
  t.same(lines, []);
  t.end();
});
