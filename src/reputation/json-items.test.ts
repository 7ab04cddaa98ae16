import fc from 'fast-check';
import t from 'tap';
import { createJsonItems } from './json-items.js';

function itemsOf(text: string, chunkLength: number) {
  const found: string[] = [];
  const items = createJsonItems('relays', (item) => found.push(item));
  let good = true;
  for (let at = 0; at < text.length && good; at += chunkLength) {
    good = items.push(text.slice(at, at + chunkLength));
  }
  return { found, good, complete: items.complete() };
}

t.test('items are found wherever the chunks are cut', (t) => {
  const lists = fc.array(fc.dictionary(fc.string(), fc.jsonValue()));
  fc.assert(
    fc.property(lists, fc.integer({ min: 1, max: 40 }), (relays, length) => {
      const around = { relays_published: 'x', a: { relays: [{ no: 1 }] }, bridges: [{ no: 2 }] };
      const text = JSON.stringify({ ...around, relays }, null, 1);
      const { found, good, complete } = itemsOf(text, length);
      const parsed: unknown[] = found.map((item) => JSON.parse(item) as unknown);
      return good && complete && JSON.stringify(parsed) === JSON.stringify(relays);
    }),
  );
  t.end();
});

t.test('no text makes it throw, and only a document closed to its end is complete', (t) => {
  const texts = fc.string({ unit: fc.constantFrom(...'{}[]",:\\a ') });
  fc.assert(fc.property(texts, fc.integer({ min: 1, max: 9 }), (text, length) => void itemsOf(text, length)));
  const cases: [text: string, good: boolean, complete: boolean][] = [
    ['{"relays":[{"a":1}]}', true, true],
    ['{"relays":[{"a":1}]', true, false],
    ['{"relays":[{"a":1', true, false],
    ['[{}]', false, false],
    ['nothing', false, false],
  ];
  for (const [text, good, complete] of cases) t.match(itemsOf(text, 4), { good, complete }, text);
  t.end();
});
