import t from 'tap';
import { linksOf } from './early-hints.js';

const head = (...values: string[]): Buffer[] =>
  values.flatMap((value) => [Buffer.from('Link'), Buffer.from(value)]);

t.test('links are told apart, and those that cannot be written are left out', async (t) => {
  t.same(linksOf(head('</a.css>; rel=preload; as=style, </b.js>;rel="preload"', 'garbage', '</c>')), [
    '</a.css>; rel=preload; as=style',
    '</b.js>;rel="preload"',
    '</c>',
  ]);
  t.same(linksOf(head('<a', 'a>; rel=x', '', `</${'x'.repeat(5000)}>`)), []);
  t.same(linksOf([Buffer.from('X-Other'), Buffer.from('</a>')]), []);
});
