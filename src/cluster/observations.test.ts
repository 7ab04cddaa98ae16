import t from 'tap';
import { unpackObservation } from '../core/packed-observation.js';
import { eventFor } from '../telemetry/testing.js';
import { asObservationBatch, createObservations, type ObservationBatch } from './observations.js';

t.test('observations travel in batches, the last one when asked', async (test) => {
  const sent: ObservationBatch[] = [];
  const queue = createObservations((batch) => sent.push(batch) > 0, { batch: 4, everyMs: 60_000 });
  for (let n = 0; n < 10; n++) queue.push(eventFor({ requestId: `r${n}` }));
  test.same(
    sent.map(([count]) => count),
    [4, 4],
  );
  queue.flush();
  const ids = sent
    .flatMap(([, lines]) => lines.split('\n'))
    .map((line) => unpackObservation(line)?.requestId);
  test.same(
    ids,
    Array.from({ length: 10 }, (_, n) => `r${n}`),
  );
  test.equal(queue.dropped(), 0);
});

t.test('a line that takes no more costs observations, counted', async (test) => {
  const broken = createObservations(() => false, { batch: 2 });
  for (let n = 0; n < 4; n++) broken.push(eventFor());
  test.equal(broken.dropped(), 4);
  let messages = 0;
  const busy = createObservations(() => ++messages > 0, { batch: 1, perSecondMax: 3 });
  for (let n = 0; n < 100; n++) busy.push(eventFor());
  test.ok(messages <= 6, 'so many a second');
  test.equal(busy.dropped(), 100 - messages);
});

t.test('only a batch is taken for one', async (test) => {
  test.same(asObservationBatch(JSON.parse('[2,"a\\nb"]')), [2, 'a\nb']);
  for (const body of [null, 'a', {}, [], [1], [0, ''], ['1', 'a'], [NaN, 'a'], [1, 2], [1, 'a', 'b']])
    test.equal(asObservationBatch(body), undefined, JSON.stringify(body));
});
