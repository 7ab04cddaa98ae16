import t from 'tap';
import type { Encoding } from '../variants.js';
import { createGaps } from './gaps.js';

function around(text: string, encoding: Encoding = 'none'): string[] {
  const gaps = createGaps(text, encoding, 5);
  const all: string[] = [];
  for (let found = gaps.next(); found !== undefined; found = gaps.next()) all.push(...found);
  return all;
}

const FILL = 'a'.repeat(70_000);

t.test('what a long filler keeps apart is handed on together', (t) => {
  const blank = ' '.repeat(70_000);
  const lines = '--x\n'.repeat(20_000);
  for (const filler of [`/*${FILL}*/`, `#${FILL}\n`, `-- ${FILL}\n`, blank, lines]) {
    const text = `${'word '.repeat(9000)}1 union${filler}select 2${' more'.repeat(9000)}`;
    const plain = around(text);
    t.equal(plain.length, 1, filler.slice(0, 6));
    t.match(plain[0], /1 union select 2/);
    t.match(around(encodeURIComponent(text), 'form')[0], /1 union select 2/, 'percent-encoded');
    t.match(around(JSON.stringify(text).replaceAll('*', '\\u002a'))[0], /1 union select 2/, 'escaped');
  }
  t.end();
});

t.test('text without long fillers costs no second look', (t) => {
  t.strictSame(around('a /* b */ c -- d\n'.repeat(10_000)), []);
  t.strictSame(around(FILL), []);
  t.end();
});
