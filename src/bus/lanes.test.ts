import fc from 'fast-check';
import t from 'tap';
import { createLanes, importanceOf, type Importance, type Item } from './lanes.js';

const item = (seq: number, bytes = 1): Item => ({ seq, bytes });
const seqs = (items: readonly Item[]): number[] => items.map(({ seq }) => seq);

t.test('the least important give way, oldest first, then the newcomer itself', async (test) => {
  const lanes = createLanes<Item>({ count: 3, bytes: 100 });
  test.equal(lanes.add(item(0), 0), 0);
  test.equal(lanes.add(item(1), 2), 0);
  test.equal(lanes.add(item(2), 0), 0);
  test.equal(lanes.add(item(3), 0), 1, 'a passed one for a passed one');
  test.same(seqs(lanes.from(0, 9)), [1, 2, 3]);
  test.equal(lanes.add(item(4), 1), 1, 'a passed one for a limited one');
  test.equal(lanes.add(item(5), 2), 1, 'the last passed one for a refused one');
  test.same(seqs(lanes.from(0, 9)), [1, 4, 5]);
  test.equal(lanes.add(item(6), 0), 1, 'nothing less important is left');
  test.same(seqs(lanes.take(9, () => true)), [1, 4, 5]);
  test.equal(lanes.count() + lanes.bytes(), 0);
});

t.test('bytes are a bound too; what never fits costs nobody else', async (test) => {
  const lanes = createLanes<Item>({ count: 100, bytes: 10 });
  for (let seq = 0; seq < 5; seq++) lanes.add(item(seq, 2), 0);
  test.equal(lanes.add(item(5, 11), 2), 1);
  test.equal(lanes.count(), 5);
  test.equal(lanes.add(item(6, 5), 1), 3);
  test.equal(lanes.bytes(), 9);
});

t.test('reading leaves in place, from any place on; releasing takes away below it', async (test) => {
  const lanes = createLanes<Item>({ count: 100, bytes: 1000 });
  for (let seq = 0; seq < 30; seq++) lanes.add(item(seq), (seq % 3) as Importance);
  test.same(seqs(lanes.from(10, 4)), [10, 11, 12, 13]);
  lanes.release(12);
  test.same(seqs(lanes.from(0, 2)), [12, 13]);
  test.equal(lanes.count(), 18);
});

t.test('whatever comes and goes: in order, within its bounds, and every item accounted for', async () => {
  const add = fc.record({ importance: fc.constantFrom(0, 1, 2), bytes: fc.nat(40), take: fc.nat(3) });
  fc.assert(
    fc.property(fc.array(add, { maxLength: 3000 }), (adds) => {
      const lanes = createLanes<Item>({ count: 20, bytes: 300 });
      let [gone, taken, last] = [0, 0, -1];
      for (const [seq, { importance, bytes, take }] of adds.entries()) {
        gone += lanes.add({ seq, bytes }, importance as Importance);
        if (lanes.count() > 20 || lanes.bytes() > 300) return false;
        for (const out of take === 3 ? lanes.take(5, () => true) : []) {
          if (out.seq <= last) return false;
          last = out.seq;
          taken++;
        }
      }
      return gone + taken + lanes.count() === adds.length;
    }),
  );
});

t.test('what only would have been refused is as important as a refusal', async (test) => {
  test.equal(importanceOf({ action: 'observe', wouldBe: 'block' }), 2);
  test.equal(importanceOf({ action: 'block' }), 2);
  test.equal(importanceOf({ action: 'throttle' }), 1);
  test.equal(importanceOf({ action: 'error' }), 1);
  test.equal(importanceOf({ action: 'pass' }), 0);
});
