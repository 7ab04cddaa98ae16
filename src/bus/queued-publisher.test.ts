import { setTimeout as sleep } from 'node:timers/promises';
import t from 'tap';
import type { DecisionEvent } from '../core/event.js';
import { eventFor } from '../telemetry/testing.js';
import { kafkaSection } from './config.js';
import { RecordsRefused, type Link, type Message } from './link.js';
import { queuedPublisher } from './queued-publisher.js';

/** A broker in the test's hands. */
function broker() {
  const it = {
    taken: [] as Message[],
    batches: [] as number[],
    connects: 0,
    notes: [] as string[],
    up: true,
    /** Takes no answer back: `send` waits for ever. */
    silent: false,
    largest: Infinity,
    cut: 0,
  };
  const link: Link = {
    async send(batch) {
      if (it.silent) await new Promise(() => undefined);
      if (!it.up) throw new Error('gone');
      if (batch.some(({ value }) => value.length > it.largest)) throw new RecordsRefused(true, undefined);
      it.taken.push(...batch);
      it.batches.push(batch.length);
    },
    close: () => void it.cut++,
  };
  const connect = async (): Promise<Link> => {
    it.connects++;
    if (!it.up) throw new Error('no broker');
    return link;
  };
  const log = (_: string, message: string) => void it.notes.push(message);
  return { it, deps: { connect, address: 'kafka-1:9092', log, random: () => 0 } };
}

const bounds = (more: object = {}) => kafkaSection.parse({ brokers: ['kafka-1:9092'], linger: 0, ...more })!;
const ids = (messages: readonly Message[]): string[] => messages.map(({ id }) => id);
const numbered = (n: number, more: Partial<DecisionEvent> = {}) => eventFor({ requestId: `r${n}`, ...more });
async function until(fits: () => boolean): Promise<void> {
  for (let n = 0; n < 2_000 && !fits(); n++) await sleep(5);
}

t.test('events go in batches, in order, with key, id and the line of the log', async (test) => {
  const { it, deps } = broker();
  const publisher = queuedPublisher(bounds({ batchEvents: 10 }), deps);
  for (let n = 0; n < 25; n++) publisher.publish(numbered(n), `{"n":${n}}`);
  await until(() => publisher.stats().delivered === 25);
  test.same(it.batches, [10, 10, 5]);
  test.same(ids(it.taken), Array.from({ length: 25 }, (_, n) => `r${n}`));
  test.equal(it.taken[3]!.value.toString(), '{"n":3}');
  test.equal(it.taken[3]!.key, 'h:12ab');
  test.equal(await publisher.close(100), 0);
  publisher.publish(numbered(26));
  test.equal(publisher.stats().dropped.closed, 1);
});

t.test('a broker that is away: bounded, counted, told once, made up for by itself', async (test) => {
  const { it, deps } = broker();
  it.up = false;
  const publisher = queuedPublisher(bounds({ queueEvents: 16 }), deps);
  for (let n = 0; n < 30; n++) publisher.publish(numbered(n, n % 2 === 0 ? {} : { action: 'block' }), '{}');
  await until(() => it.connects >= 3);
  const { queued, dropped, connected } = publisher.stats();
  test.same([queued, dropped.full, connected], [16, 14, false]);
  test.equal(it.notes.length, 1);
  it.up = true;
  await until(() => publisher.stats().delivered === 16);
  const refused = ids(it.taken).filter((id) => Number(id.slice(1)) % 2 === 1);
  test.equal(refused.length, 15, 'every refused one');
  test.match(it.notes[1], /takes events again/);
  await publisher.close(100);
});

t.test('one that is too large for the broker is cut short, or dropped, and holds up no other', async (test) => {
  const { it, deps } = broker();
  it.largest = 3_000;
  const publisher = queuedPublisher(bounds({ batchEvents: 50 }), deps);
  const finding = { id: 'X', kind: 'match', points: 5, message: 'm'.repeat(5_000) } as const;
  const step = { stage: 'rules', before: 0, after: 5, durationUs: 1, findings: [finding] } as const;
  for (let n = 0; n < 40; n++) {
    if (n === 7) publisher.publish(numbered(n, { steps: [step] }));
    else if (n === 23) publisher.publish(numbered(n, { site: 's'.repeat(4_000) }));
    else publisher.publish(numbered(n));
  }
  await until(() => publisher.stats().delivered === 39);
  test.same(
    ids(it.taken),
    Array.from({ length: 40 }, (_, n) => `r${n}`).filter((id) => id !== 'r23'),
  );
  const short = JSON.parse(it.taken[7]!.value.toString()) as DecisionEvent;
  test.same(short.steps[0]!.findings, [{ id: 'X', kind: 'match', points: 5, message: '' }]);
  test.equal(publisher.stats().dropped['too-large'], 1);
  await publisher.close(100);
});

t.test('longer than `eventMax`: only what the correlator needs, or nothing', async (test) => {
  const { it, deps } = broker();
  const publisher = queuedPublisher(bounds({ eventMax: 4096 }), deps);
  publisher.publish(numbered(1, { path: 'p'.repeat(9_000), query: 'q'.repeat(9_000) }));
  publisher.publish(numbered(2, { site: 's'.repeat(9_000) }));
  await until(() => publisher.stats().delivered === 1);
  const short = JSON.parse(it.taken[0]!.value.toString()) as DecisionEvent;
  test.equal(short.path.length, 257);
  test.notOk('query' in short);
  test.equal(publisher.stats().dropped['too-large'], 1);
  await publisher.close(100);
});

t.test('closing delivers what waits within its time, and states what it could not', async (test) => {
  const fine = broker();
  const first = queuedPublisher(bounds({ linger: '5s' }), fine.deps);
  for (let n = 0; n < 5; n++) first.publish(numbered(n));
  test.equal(await first.close(10_000), 0, 'without waiting for the batch to fill');
  test.equal(fine.it.taken.length, 5);
  const mute = broker();
  mute.it.silent = true;
  const second = queuedPublisher(bounds(), mute.deps);
  for (let n = 0; n < 5; n++) second.publish(numbered(n));
  await until(() => mute.it.connects > 0);
  test.equal(await second.close(50), 5);
  test.equal(second.stats().dropped.unavailable, 5);
  test.ok(mute.it.cut > 0, 'the link is cut');
});

t.test('a kernel event goes by its source', async (test) => {
  const { it, deps } = broker();
  const publisher = queuedPublisher(bounds(), deps);
  const place = { node: 'edge-1', interface: 'eth0', mode: 'driver' } as const;
  const about = { ...place, source: '203.0.113.7', cap: 10 } as const;
  const time = '2026-01-02T03:04:05.000Z';
  const event = { v: 1, kind: 'kernel', time, ...about, what: 'syn', dropped: true } as const;
  publisher.publish(event);
  await until(() => publisher.stats().delivered === 1);
  test.same(JSON.parse(it.taken[0]!.value.toString()), event);
  test.equal(it.taken[0]!.key, '203.0.113.7');
  test.equal(ids(it.taken)[0], 'edge-1 2026-01-02T03:04:05.000Z 203.0.113.7 syn');
  await publisher.close(100);
});
