import { setTimeout as sleep } from 'node:timers/promises';
import t from 'tap';
import { createEventReader, createLines, type Crossing } from './events.js';

t.test('lines are put together from pieces; one that is too long is dropped to its end', (t) => {
  const lines: string[] = [];
  let long = 0;
  const split = createLines(
    (line) => lines.push(line),
    () => long++,
  );
  for (const part of [
    'a',
    'b\nc\n',
    '\n',
    'x'.repeat(5000),
    'y'.repeat(5000),
    '\nd',
    '\n',
    `${'z'.repeat(4097)}\n`,
    'e\n',
  ])
    split(part);
  t.same(lines, ['ab', 'c', 'd', 'e']);
  t.equal(long, 2);
  t.end();
});

t.test('crossings are read, other lines counted, and a reader that ends is started again', async (t) => {
  const good = { atMs: 5, net: '203.0.113.7/32', cap: 'syn', limit: 10, dryRun: false };
  const bad = ['not json', '[]', '{"net":1}', JSON.stringify({ ...good, cap: 'other' })];
  const script = [JSON.stringify(good), ...bad]
    .map((line) => `console.log(${JSON.stringify(line)})`)
    .join(';');
  const taken: Crossing[] = [];
  const reader = createEventReader({
    command: [process.execPath, '-e', script],
    take: (crossing) => taken.push(crossing),
  });
  reader.start();
  for (let at = 0; at < 400 && taken.length < 2; at++) await sleep(25);
  await reader.close();
  t.same(taken[0], { timeMs: 5, source: '203.0.113.7', what: 'syn', cap: 10, dropped: true });
  t.ok(taken.length >= 2, 'the second run told it again');
  t.ok(reader.stats().restarts >= 1);
  t.ok(reader.stats().unread >= 4);
});

t.test('a loader that is not there is tried again, and closing ends it', async (t) => {
  const reader = createEventReader({ command: ['/nowhere/loader', 'events'], take: () => undefined });
  reader.start();
  for (let at = 0; at < 200 && reader.stats().restarts < 1; at++) await sleep(10);
  await reader.close();
  t.equal(reader.stats().restarts, 1);
});
