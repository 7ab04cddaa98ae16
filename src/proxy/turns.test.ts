import t from 'tap';
import { createTurns } from './turns.js';

t.test('what is ready is done at once, what waits holds up those behind it', async (test) => {
  const seen: string[] = [];
  const turns = createTurns(() => test.fail('nothing fails'));
  turns.add(() => void seen.push('a'));
  test.same(seen, ['a']);
  await new Promise<void>((resolve) => {
    turns.add(async () => {
      await Promise.resolve();
      seen.push('b');
    });
    turns.add(() => {
      seen.push('c');
      resolve();
    });
    test.same(seen, ['a']);
  });
  test.same(seen, ['a', 'b', 'c']);
  turns.add(() => void seen.push('d'));
  test.same(seen, ['a', 'b', 'c', 'd']);
});

t.test('a failure is told and does not stop the rest', async (test) => {
  const told: string[] = [];
  const turns = createTurns((error) => void told.push((error as Error).message));
  turns.add(() => {
    throw new Error('thrown');
  });
  turns.add(() => Promise.reject(new Error('rejected')));
  await new Promise<void>((resolve) => void turns.add(resolve));
  test.same(told, ['thrown', 'rejected']);
});

t.test('work that adds work while it runs is behind what was there', async (test) => {
  const seen: string[] = [];
  const turns = createTurns(() => undefined);
  turns.add(() => {
    turns.add(() => void seen.push('inner'));
    seen.push('outer');
  });
  test.same(seen, ['outer', 'inner']);
});
