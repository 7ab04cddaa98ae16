import t from 'tap';
import { createRepeats } from './repeats.js';

t.test('a request is new once, also after saving, until two generations have passed', async (test) => {
  const repeats = createRepeats(undefined, 100);
  test.ok(repeats.isNew('a'));
  test.notOk(repeats.isNew('a'));
  for (let n = 0; n < 150; n++) repeats.isNew(`n${n}`);
  test.notOk(repeats.isNew('a'), 'the older generation is asked too');
  const again = createRepeats(repeats.save(), 100);
  test.notOk(again.isNew('a'));
  test.notOk(again.isNew('n149'));
  test.equal(again.save(), repeats.save());
  for (let n = 0; n < 400; n++) again.isNew(`m${n}`);
  test.ok(again.isNew('a'), 'bounded: forgotten in the end');
});

t.test('text that is no two generations is refused', async (test) => {
  test.throws(() => createRepeats('abcd'));
  test.throws(() => createRepeats('a b c'));
});
