import t from 'tap';
import { createEarlier } from './earlier.js';
import { createHeldNotes } from './held-notes.js';

const MINUTE = 60_000;
const crowd = (from: number, count: number): string[] =>
  Array.from({ length: count }, (_, n) => `network:192.0.2.${from + n}`);

t.test('the same crowd is told once an hour, another one at once, at most once a minute', async (test) => {
  const notes = createHeldNotes();
  test.ok(notes.isDue('p', crowd(0, 50), 0));
  test.notOk(notes.isDue('p', crowd(0, 50), 10 * MINUTE));
  test.notOk(notes.isDue('p', crowd(0, 60), 11 * MINUTE), 'a crowd that grows is the same');
  test.ok(notes.isDue('p', crowd(100, 50), 12 * MINUTE), 'mostly others');
  test.notOk(notes.isDue('p', crowd(200, 50), 12.5 * MINUTE));
  test.ok(notes.isDue('p', crowd(200, 50), 13 * MINUTE));
  test.ok(notes.isDue('p', crowd(200, 50), 74 * MINUTE));
  test.ok(notes.isDue('q', [], 0));
  test.notOk(notes.isDue('q', [], 59 * MINUTE));
  const large = (from: number): string[] => Array.from({ length: 3_000 }, (_, n) => `network:${from + n}`);
  test.ok(notes.isDue('large', large(0), 0));
  test.notOk(notes.isDue('large', large(500), 2 * MINUTE));
  test.ok(notes.isDue('large', large(9_000), 4 * MINUTE));
});

t.test('what bans touched adds up as it was counted, for a while', async (test) => {
  const earlier = createEarlier(15 * MINUTE, 2);
  const touched = { weight: 30, samples: 3 };
  earlier.add('a', touched, 0);
  earlier.add('b', touched, MINUTE);
  earlier.add('none', { weight: 0, samples: 0 }, MINUTE);
  test.same(earlier.sum(MINUTE, () => false), { weight: 60, samples: 6 });
  test.same(earlier.sum(MINUTE, (name) => name === 'a'), touched, 'but those asked about now');
  test.same(earlier.sum(15 * MINUTE, () => false), touched);
  earlier.add('c', touched, 2 * MINUTE);
  test.same(earlier.sum(2 * MINUTE, () => false), { weight: 60, samples: 6 }, 'the oldest gives way');
});
