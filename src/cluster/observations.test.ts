import t from 'tap';
import { unpackObservation, type PackedObservation } from '../core/packed-observation.js';
import { eventFor } from '../telemetry/testing.js';
import { createObservations } from './observations.js';

t.test('observations travel in batches, the last one when asked', async (test) => {
  const sent: (readonly PackedObservation[])[] = [];
  const queue = createObservations((batch) => sent.push(batch) > 0, { batch: 4, everyMs: 60_000 });
  for (let n = 0; n < 10; n++) queue.push(eventFor({ requestId: `r${n}` }));
  test.same(
    sent.map((batch) => batch.length),
    [4, 4],
  );
  queue.flush();
  const ids = sent.flat().map((packed) => unpackObservation(packed)?.requestId);
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
