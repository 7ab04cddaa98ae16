import t from 'tap';
import type { DecisionEvent } from '../core/event.js';
import { createNotables } from './notables.js';

const event = (n: number): DecisionEvent => ({ requestId: String(n) }) as DecisionEvent;

t.test('the latest few of a moment travel in one message, the rest is counted', (test) => {
  const sent: string[][] = [];
  const notables = createNotables((events) => sent.push(events.map(({ requestId }) => requestId)) > 0, {
    max: 3,
    everyMs: 60_000,
  });
  for (let n = 0; n < 10; n++) notables.push(event(n));
  notables.flush();
  notables.flush();
  test.strictSame(sent, [['7', '8', '9']], 'nothing is sent where nothing waits');
  test.equal(notables.skipped(), 7);
  test.end();
});

t.test('they are sent by themselves soon', async (test) => {
  const sent: number[] = [];
  const notables = createNotables((events) => sent.push(events.length) > 0, { everyMs: 5 });
  notables.push(event(1));
  notables.push(event(2));
  await new Promise((resolve) => setTimeout(resolve, 60));
  test.strictSame(sent, [2]);
});

t.test('what the line does not take is counted, not kept', (test) => {
  const notables = createNotables(() => false, { everyMs: 60_000 });
  notables.push(event(1));
  notables.flush();
  test.equal(notables.skipped(), 1);
  test.end();
});
