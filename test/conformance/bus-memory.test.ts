/** The bus conformance suite over the bus in memory, and what only that one does. */
import t from 'tap';
import { createMemoryBus } from '../../src/bus/memory.js';
import { recordingSink } from '../../src/bus/testing.js';
import { observationOf } from '../../src/core/observation.js';
import { eventFor } from '../../src/telemetry/testing.js';
import { busConformance, until, type TestBus } from './bus.js';

const loop = { settleEveryMs: 50 };

await busConformance(t, 'memory', async (): Promise<TestBus> => {
  const bus = createMemoryBus({ loop });
  return {
    publisher: bus.publisher,
    consumer: () => bus.consumer(),
    raw: async (text) => bus.offerText('stranger', text),
    close: async () => undefined,
  };
});

t.test('where nobody reads, the least important go first, counted', async (test) => {
  const bus = createMemoryBus({ partitions: 1, queueEvents: 20, loop });
  const actions = ['block', 'pass', 'limit'] as const;
  for (let n = 0; n < 30; n++)
    bus.offer(observationOf(eventFor({ requestId: `r${n}`, action: actions[n % 3]!, ruleIds: ['X'] })));
  test.equal(bus.dropped(), 10);
  const sink = recordingSink();
  const consumer = bus.consumer();
  await consumer.start(sink);
  await until('all are taken', () => sink.taken.length === 20);
  const refusals = sink.taken.map(({ content }) => (typeof content === 'string' ? content : content.refusal));
  test.equal(refusals.filter((refusal) => refusal === 'rules').length, 10);
  test.equal(refusals.filter((refusal) => refusal === 'limit').length, 10);
  const offsets = sink.taken.map(({ offset }) => offset);
  test.same(offsets, [...offsets].sort((a, b) => a - b));
  await consumer.close(1_000);
});

t.test('a slow reader gets everything that had room', async (test) => {
  const bus = createMemoryBus({ partitions: 2, queueEvents: 40_000, loop });
  for (let n = 0; n < 12_000; n++) bus.offer(observationOf(eventFor({ requestId: `r${n}` })));
  const sink = recordingSink();
  const consumer = bus.consumer();
  await consumer.start(sink);
  await until('all are taken', () => sink.taken.length === 12_000);
  test.equal(bus.dropped(), 0);
  test.equal(consumer.stats().lag, 0);
  await consumer.close(1_000);
});
