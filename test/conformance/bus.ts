/**
 * What every bus keeps, whatever carries the messages. Each test opens a bus of its own (a topic nobody else
 * writes to).
 */
import { setTimeout as sleep } from 'node:timers/promises';
import type { Test } from 'tap';
import { REJECTS, type Consumer, type Publisher } from '../../src/bus/bus-contract.js';
import { recordingSink, type RecordingSink } from '../../src/bus/testing.js';
import type { DecisionEvent } from '../../src/core/event.js';
import { eventFor } from '../../src/telemetry/testing.js';

export type TestBus = Readonly<{
  publisher: () => Publisher;
  consumer: () => Consumer;
  /** A message as a stranger would write it. */
  raw: (text: string) => Promise<void>;
  close: () => Promise<void>;
}>;

export type OpenBus = () => Promise<TestBus>;

const WAIT_MS = 30_000;
const T0 = Date.parse('2026-01-02T03:04:05.000Z');

export async function until(what: string, fits: () => boolean, ms = WAIT_MS): Promise<void> {
  const deadline = Date.now() + ms;
  while (!fits()) {
    if (Date.now() > deadline) throw new Error(`not in time: ${what}`);
    await sleep(10);
  }
}

/** Event `n` of a caller, a millisecond after the one before. */
function event(n: number, caller: string, more: Partial<DecisionEvent> = {}): DecisionEvent {
  return eventFor({
    time: new Date(T0 + n).toISOString(),
    requestId: `${caller}-${n}`,
    client: { ip: '192.0.2.1', key: '192.0.2.1', session: caller },
    ...more,
  });
}

const CALLERS = ['ann', 'bob', 'cyd', 'dan', 'eve', 'fay'];
const publishAll = (publisher: Publisher, from: number, to: number): void => {
  for (let n = from; n < to; n++) publisher.publish(event(n, CALLERS[n % CALLERS.length]!));
};
const idsFrom = (from: number, to: number): string[] =>
  Array.from({ length: to - from }, (_, at) => `${CALLERS[(from + at) % CALLERS.length]!}-${from + at}`);
const missing = (sink: RecordingSink, wanted: readonly string[]): string[] => {
  const seen = new Set(sink.ids());
  return wanted.filter((id) => !seen.has(id));
};

export async function busConformance(t: Test, name: string, open: OpenBus): Promise<void> {
  const test = (title: string, body: (test: Test, bus: TestBus) => Promise<void>): Promise<unknown> =>
    t.test(`${name}: ${title}`, async (test) => {
      const bus = await open();
      try {
        await body(test, bus);
      } finally {
        await bus.close();
      }
    });

  await test('what is published is taken, in order for each caller, once', async (test, bus) => {
    const publisher = bus.publisher();
    const consumer = bus.consumer();
    const sink = recordingSink();
    await consumer.start(sink);
    publishAll(publisher, 0, 600);
    await until('all are taken', () => sink.ids().length >= 600);
    for (const caller of CALLERS) {
      const numbers = sink
        .ids()
        .filter((id) => id.startsWith(caller))
        .map((id) => Number(id.slice(4)));
      test.same(numbers, [...numbers].sort((a, b) => a - b), `${caller} in order`);
    }
    test.equal(new Set(sink.ids()).size, 600);
    await until('all are delivered', () => publisher.stats().delivered === 600);
    await until('nothing is left', () => consumer.stats().lag === 0);
    const firstTake = new Set(sink.taken.map(({ partition }) => partition));
    const opened = sink.calls.filter((call) => call.startsWith('open')).map((call) => Number(call.slice(5)));
    test.ok([...firstTake].every((partition) => opened.includes(partition)), 'opened before it is read');
    test.equal(await publisher.close(1_000), 0);
    await consumer.close(1_000);
    test.equal(consumer.stats().taken, 600);
  });

  await test('side by side, partitions are read by event time', async (test, bus) => {
    const publisher = bus.publisher();
    publishAll(publisher, 0, 400);
    await until('all are delivered', () => publisher.stats().delivered === 400);
    const consumer = bus.consumer();
    const sink = recordingSink();
    await consumer.start(sink);
    await until('all are taken', () => sink.ids().length >= 400);
    const numbers = sink.ids().map((id) => Number(id.slice(4)));
    test.same(numbers, [...numbers].sort((a, b) => a - b), 'however they lie on the bus');
    await consumer.close(1_000);
    await publisher.close(1_000);
  });

  await test('what was not settled comes again, what was does not', async (test, bus) => {
    const publisher = bus.publisher();
    const first = bus.consumer();
    const refusing = recordingSink();
    refusing.refuseSettling(true);
    await first.start(refusing);
    publishAll(publisher, 0, 60);
    await until('all are taken', () => refusing.ids().length >= 60);
    await until('settling was refused', () => first.stats().failures > 0);
    await first.close(500);
    const second = bus.consumer();
    const settling = recordingSink();
    await second.start(settling);
    await until('all come again', () => missing(settling, idsFrom(0, 60)).length === 0);
    await second.close(3_000);
    publishAll(publisher, 60, 90);
    const third = bus.consumer();
    const last = recordingSink();
    await third.start(last);
    await until('the rest comes', () => missing(last, idsFrom(60, 90)).length === 0);
    test.same([...last.ids()].sort(), idsFrom(60, 90).sort(), 'and nothing else');
    await third.close(1_000);
    await publisher.close(1_000);
  });

  await test('two consumers share, and take over from each other', async (test, bus) => {
    const publisher = bus.publisher();
    const [one, two] = [bus.consumer(), bus.consumer()];
    const [first, second] = [recordingSink(), recordingSink()];
    await one.start(first);
    publishAll(publisher, 0, 60);
    await until('one reads alone', () => missing(first, idsFrom(0, 60)).length === 0);
    await two.start(second);
    const reading = [one, two];
    await until('both read', () => reading.every((each) => each.stats().partitions.length > 0));
    const shared = [...one.stats().partitions, ...two.stats().partitions];
    test.equal(new Set(shared).size, shared.length, 'none of them twice');
    publishAll(publisher, 60, 120);
    const both = (from: number, to: number) => (): boolean => {
      const seen = new Set([...first.ids(), ...second.ids()]);
      return idsFrom(from, to).every((id) => seen.has(id));
    };
    await until('together they read all', both(60, 120));
    test.ok(first.calls.some((call) => call.startsWith('lost')), 'what one gave up it was told');
    await one.close(2_000);
    await until('the other has all', () => two.stats().partitions.length === shared.length);
    publishAll(publisher, 120, 180);
    await until('it reads alone', () => missing(second, idsFrom(120, 180)).length === 0);
    await two.close(1_000);
    await publisher.close(1_000);
  });

  await test('what holds no observation is counted and passed over', async (test, bus) => {
    const soon = new Date(Date.now() + 3_600_000).toISOString();
    const good = event(1, 'ann');
    const rows: readonly (readonly [string, string])[] = [
      ['not-json', 'nonsense\u0000'],
      ['version', JSON.stringify({ ...good, v: 2 })],
      ['shape', JSON.stringify({ ...good, client: null })],
      ['future', JSON.stringify({ ...good, time: soon })],
      ['other', JSON.stringify({ v: 1, kind: 'kernel' })],
      ['too-large', `{"v":1,"x":"${'x'.repeat(1_060_000)}"}`],
    ];
    for (const [, text] of rows) await bus.raw(text);
    const publisher = bus.publisher();
    publisher.publish(event(1, 'bob'));
    const consumer = bus.consumer();
    const sink = recordingSink();
    await consumer.start(sink);
    await until('all are taken', () => consumer.stats().taken >= rows.length + 1);
    test.same(consumer.stats().rejected, Object.fromEntries(REJECTS.map((reject) => [reject, 1])));
    test.same(sink.ids(), ['bob-1'], 'the others are read');
    await consumer.close(2_000);
    const again = bus.consumer();
    const second = recordingSink();
    await again.start(second);
    publisher.publish(event(2, 'bob'));
    await until('the next one comes', () => second.ids().includes('bob-2'));
    test.same(again.stats().rejected, Object.fromEntries(REJECTS.map((reject) => [reject, 0])), 'not again');
    await again.close(1_000);
    await publisher.close(1_000);
  });
}
