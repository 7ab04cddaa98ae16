import t from 'tap';
import { HeldChunks } from './held-chunks.js';

t.test('pieces come back in their order, small ones together', async (t) => {
  const chunks = new HeldChunks();
  const sent: Buffer[] = [];
  for (let n = 0; n < 40_000; n++) {
    const chunk = Buffer.alloc(n % 5000 === 0 ? 3000 : 1, n % 251);
    sent.push(chunk);
    chunks.add(chunk);
  }
  const kept = chunks.take();
  t.ok(kept.length < 40, 'in few pieces', { got: kept.length });
  t.ok(Buffer.concat(kept).equals(Buffer.concat(sent)));
  t.equal(chunks.take().length, 0, 'and are then no longer kept');
});

t.test('a body of one piece is handed over as it came', async (t) => {
  const chunks = new HeldChunks();
  const only = Buffer.from('a=1');
  chunks.add(only);
  t.equal(chunks.takeWhole(), only);
  t.equal(chunks.takeWhole().length, 0);
});
