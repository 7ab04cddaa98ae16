import t from 'tap';
import { createDeadlines } from './deadlines.js';

const pause = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));

t.test('what is not stopped is over once, in the order of starting', async (test) => {
  const deadlines = createDeadlines(20);
  const seen: string[] = [];
  const begun = deadlines.start(() => void seen.push('a'));
  const stopped = deadlines.start(() => void seen.push('b'));
  await pause(5);
  await new Promise<void>((resolve) => {
    deadlines.start(() => {
      seen.push('c');
      resolve();
    });
    test.equal(deadlines.stop(stopped), true);
    test.equal(deadlines.stop(stopped), false);
  });
  test.same(seen, ['a', 'c']);
  test.equal(deadlines.stop(begun), false);
});

t.test('a deadline begun when none was running is kept', async (test) => {
  const deadlines = createDeadlines(10);
  deadlines.stop(deadlines.start(() => test.fail('was stopped')));
  await pause(30);
  await new Promise<void>((resolve) => void deadlines.start(resolve));
});
