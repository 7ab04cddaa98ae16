/**
 * H01: the event bus is down, silent, picky or closed to us, at a real Kafka broker and real gates. Requests
 * go on as if nothing was; what is lost is counted; everything heals by itself.
 */
import { once } from 'node:events';
import { createServer, type Server } from 'node:http';
import { createServer as createTcpServer, type AddressInfo } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import kafkajs from 'kafkajs';
import t, { type Test } from 'tap';
import { kafkaSection } from '../../src/bus/config.js';
import { createKafkaConsumer } from '../../src/bus/kafka-consumer.js';
import { createKafkaPublisher } from '../../src/bus/kafka-publisher.js';
import { kafkaSettings } from '../../src/bus/settings.js';
import { recordingSink, type RecordingSink } from '../../src/bus/testing.js';
import { eventFor } from '../../src/telemetry/testing.js';
import { until } from '../support/case.js';
import { startGate, type ConfigTree, type Gate } from '../support/gate.js';
import { ownKafkaMissing, startKafka, type KafkaServer } from '../support/kafka.js';
import { loadClient, paced, quantile, type LoadAnswer } from '../support/load.js';
import { FULL, metricOf } from '../support/nodes.js';

const PASSWORD = 'right-hunter2-right';
const TOPIC = 'h01';
const SIGNED = 'h01-signed';
const SECONDS = FULL ? 60 : 2;
const QUEUE = 150;
const WAIT_MS = 40_000;
const ATTACK = `/?q=${encodeURIComponent("' or 1=1 --")}`;

/** Short waits, so that each trouble shows soon. */
const bus = (more: ConfigTree): ConfigTree => ({
  linger: '5ms',
  partitions: 2,
  compression: 'none',
  requestTimeout: '700ms',
  connectTimeout: '500ms',
  queueEvents: QUEUE,
  ...more,
});

type Scene = Readonly<{
  kafka: KafkaServer;
  origin: Server;
  /** Writes to `TOPIC` without signing in. */
  open: Gate;
  /** Writes to `SIGNED` as user `gate`. */
  signed: Gate;
  workers: number[];
  /** What arrived on `TOPIC` and on `SIGNED`. */
  arrived: Readonly<{ open: RecordingSink; signed: RecordingSink }>;
}>;

async function scene(t: Test): Promise<Scene> {
  const kafka = await startKafka(PASSWORD);
  t.teardown(() => kafka.stop());
  const origin = createServer((_, answer) => answer.end('ok'));
  origin.listen(0, '127.0.0.1');
  await once(origin, 'listening');
  t.teardown(() => origin.closeAllConnections() ?? origin.close());
  const options = {
    upstream: `http://127.0.0.1:${(origin.address() as AddressInfo).port}`,
    env: { H01_PASSWORD: PASSWORD },
  };
  const sasl = { mechanism: 'plain', username: 'gate', passwordEnv: 'H01_PASSWORD' };
  const [open, signed] = await Promise.all([
    startGate({ kafka: bus({ brokers: kafka.brokers, topic: TOPIC, closing: '1s' }) }, options),
    startGate({ kafka: bus({ brokers: kafka.saslBrokers, topic: SIGNED, sasl }) }, options),
  ]);
  for (const gate of [open, signed]) t.teardown(() => gate.stop());
  const arrived = { open: reader(t, kafka, TOPIC), signed: reader(t, kafka, SIGNED) };
  return { kafka, origin, open, signed, workers: open.workers(), arrived };
}

let groups = 0;

/** Everything that lies on the topic, and what comes. */
function reader(t: Test, { brokers }: KafkaServer, topic: string): RecordingSink {
  const config = kafkaSection.parse(bus({ brokers, topic, group: `h01-${++groups}` }))!;
  const consumer = createKafkaConsumer(kafkaSettings(config, { baseDir: '/' }), { log: () => undefined });
  const sink = recordingSink();
  void consumer.start(sink);
  t.teardown(() => consumer.close(500));
  return sink;
}

/** One request; answers its status. */
async function ask(gate: Gate, path: string): Promise<number> {
  const client = loadClient(1);
  const { status } = await client.send({ port: gate.port, path });
  client.close();
  return status;
}

/** The decisions on requests whose path begins so, as the log has them. */
const logged = (gate: Gate, path: string): string[] =>
  gate.events((event) => event.path.startsWith(path)).map(({ requestId }) => requestId);

async function arrives(sink: RecordingSink, ids: readonly string[]): Promise<boolean> {
  return until(() => {
    const seen = new Set(sink.ids());
    return ids.every((id) => seen.has(id));
  }, WAIT_MS);
}

const drops = (gate: Gate, cause: string): Promise<number> => metricOf(gate, `bus_dropped{cause="${cause}"}`);

/** Ordinary requests and some attacks at a steady pace while `trouble` lasts. */
async function under(gate: Gate, trouble: () => Promise<unknown>): Promise<LoadAnswer[]> {
  const client = loadClient(20);
  let [turn, isOver] = [0, false];
  const next = () => ({ port: gate.port, path: turn++ % 20 === 0 ? ATTACK : `/load/${turn}` });
  const load = paced(client, { perSecond: 150, next, over: () => isOver });
  try {
    await trouble();
  } finally {
    isOver = true;
  }
  const answers = await load;
  client.close();
  return answers;
}

/** Served or refused as ever, by the same workers, with nothing unhandled. */
function unmoved(t: Test, { open, workers }: Scene, before: LoadAnswer[], during: LoadAnswer[]): void {
  const odd = during.filter(({ status }) => status !== 200 && status !== 403);
  t.same(odd, [], `all of ${during.length} requests are served or refused`);
  t.equal(open.stderr, '', 'nothing unhandled');
  t.same(open.workers(), workers, 'by the same workers');
  const [was, is] = [quantile(before, 0.5), quantile(during, 0.5)];
  t.ok(is < 3 * was + 50, `median ${was.toFixed(1)} ms before, ${is.toFixed(1)} ms meanwhile`);
}

t.test('H01: the event bus is down', { skip: ownKafkaMissing, timeout: 170_000 }, async (t) => {
  const at = await scene(t);
  const { kafka, open, signed, arrived } = at;
  let before: LoadAnswer[] = [];

  await t.test('well: every decision arrives', async (t) => {
    before = await under(open, () => sleep(1_000));
    await ask(signed, '/first');
    t.ok(await until(() => logged(open, '/').length >= before.length), 'the log has all');
    t.ok(await arrives(arrived.open, logged(open, '/')), 'and so has the topic');
    t.ok(await until(() => logged(signed, '/first').length === 1), 'a gate that signs in');
    t.ok(await arrives(arrived.signed, logged(signed, '/first')), 'delivers too');
    t.equal(await metricOf(open, 'bus_connected'), 1);
  });

  await t.test('(c) one event is too large for the broker', async (t) => {
    const limit = async (bytes: string): Promise<void> => {
      const configEntries = [{ name: 'max.message.bytes', value: bytes }];
      const resources = [{ type: kafkajs.ConfigResourceTypes.TOPIC, name: TOPIC, configEntries }];
      await kafka.admin.alterConfigs({ validateOnly: false, resources });
    };
    await kafka.admin.connect();
    await limit('2000');
    const answers = await Promise.all([
      ask(open, '/small/1'),
      ask(open, `/large/${'x'.repeat(3_000)}?q=${'y'.repeat(3_000)}`),
      ask(open, '/small/2'),
    ]);
    t.same(answers, [200, 200, 200]);
    t.ok(await until(() => logged(open, '/small').length === 2 && logged(open, '/large').length === 1));
    t.ok(await arrives(arrived.open, [...logged(open, '/small'), ...logged(open, '/large')]), 'all arrive');
    const contents = arrived.open.taken.map(({ content }) => content);
    const large = contents.find((each) => typeof each !== 'string' && each.path.startsWith('/large'));
    t.match(large, { status: 200, refusal: 'none' }, 'the large one cut to what is needed');
    t.equal(await drops(open, 'too-large'), 0);
    await limit('1000000');
  });

  await t.test('(f) the topic is deleted', async (t) => {
    await kafka.admin.deleteTopics({ topics: [TOPIC] });
    t.equal(await ask(open, '/deleted'), 200);
    t.ok(await until(() => logged(open, '/deleted').length === 1));
    t.ok(await arrives(arrived.open, logged(open, '/deleted')), 'it is made anew, and the event arrives');
  });

  await t.test('(b) the broker is reachable but silent', async (t) => {
    kafka.freeze();
    const during = await under(open, async () => {
      await until(async () => (await metricOf(open, 'bus_connected')) === 0, WAIT_MS);
      await sleep(500);
    });
    unmoved(t, at, before, during);
    kafka.thaw();
    t.equal(await ask(open, '/thawed'), 200);
    t.ok(await until(() => logged(open, '/thawed').length === 1));
    t.ok(await arrives(arrived.open, logged(open, '/thawed')), 'it goes on by itself');
  });

  await t.test('(a) the broker is killed; (e) it comes back and refuses our password', async (t) => {
    const flood = floods(t, kafka);
    const earlier = open.decisions.length;
    const during = await under(open, async () => {
      await kafka.kill();
      await sleep(SECONDS * 1_000);
      const drop = async (): Promise<boolean> => (await drops(open, 'full')) > 0;
      t.ok(await until(drop, WAIT_MS), 'the queue is full, drops are counted');
      t.ok((await metricOf(open, 'bus_queued')) <= QUEUE + 200, 'and bounded');
      await flood.full();
      await kafka.restart('another');
    });
    unmoved(t, at, before, during);
    const decisions = open.decisions.slice(earlier);
    const attacks = decisions.filter(({ action }) => action === 'block').map(({ requestId }) => requestId);
    t.ok(attacks.length > 0, `${attacks.length} refusals are in the log`);
    t.ok(await arrives(reader(t, kafka, TOPIC), attacks), 'and arrive, however many passed ones were dropped');
    await flood.made();
    t.ok(open.lines.some((line) => line.includes('KAFKA_UNREACHABLE')), 'the log says so');
    t.equal(await ask(signed, '/unsigned'), 200, 'refused by the broker, the other gate serves on');
    const told = (): boolean => signed.lines.some((line) => line.includes('KAFKA_UNREACHABLE'));
    t.ok(await until(told, WAIT_MS), 'and says so');
    t.notOk(signed.lines.some((line) => line.includes('hunter2')), 'without the password');
  });

  await t.test('(d) the gate is stopped meanwhile; (e) the password is right again', async (t) => {
    await kafka.kill();
    for (let n = 0; n < 10; n++) await ask(open, '/last');
    open.child.kill('SIGTERM');
    await until(() => open.exit !== undefined, WAIT_MS);
    t.equal(open.exit?.code, 0, 'it ends');
    const lost = open.lines.map((line) => JSON.parse(line) as { msg?: string; events?: number });
    const stated = lost.find(({ msg }) => msg?.includes('lost at the end') === true);
    t.ok((stated?.events ?? 0) >= 10, `and states the loss of ${stated?.events} events`);
    t.equal(logged(open, '/last').length, 10, 'which the log has');
    await kafka.restart(PASSWORD);
    t.equal(await ask(signed, '/again'), 200);
    t.ok(await until(() => logged(signed, '/again').length === 1));
    const missed = [...logged(signed, '/unsigned'), ...logged(signed, '/again')];
    t.ok(await arrives(arrived.signed, missed), 'what waited arrives, at a reader that went through all this');
    t.equal(signed.stderr, '', 'nothing unhandled');
  });
});

/** 2 000 events a second straight into a publisher whose broker is down. */
function floods(t: Test, { brokers }: KafkaServer) {
  const section = bus({ brokers, topic: TOPIC, queueEvents: 2_000, queueBytes: '1MB' });
  const settings = kafkaSettings(kafkaSection.parse(section)!, { baseDir: '/' });
  const publisher = createKafkaPublisher(settings, () => undefined);
  t.teardown(() => publisher.close(100));
  let [sent, worst] = [0, 0];
  const timer = setInterval(() => {
    for (let n = 0; n < 20; n++, sent++) {
      const action = sent % 100 === 0 ? 'block' : 'pass';
      publisher.publish(eventFor({ requestId: `flood-${sent}`, action }));
    }
    worst = Math.max(worst, publisher.stats().queuedBytes);
  }, 10);
  return {
    async full() {
      t.ok(await until(() => publisher.stats().dropped.full > 0, WAIT_MS), 'a flood fills its queue too');
    },
    async made() {
      clearInterval(timer);
      t.ok(await until(() => publisher.stats().queued === 0, WAIT_MS), 'it is made up for');
      const { delivered, dropped } = publisher.stats();
      t.equal(delivered + dropped.full, sent, `${sent} events: ${delivered} delivered, ${dropped.full} dropped`);
      t.ok(worst <= 1.6 * 1024 ** 2, `at most ${worst} bytes waited`);
    },
  };
}

t.test('H01: a broker that is none', async (t) => {
  const garbage = createTcpServer((socket) => {
    socket.on('error', () => undefined);
    socket.on('data', () => socket.write(Buffer.from([0, 0, 0, 8, 0, 0, 0, 0, 255, 255, 255, 255, 7])));
  });
  garbage.listen(0, '127.0.0.1');
  await once(garbage, 'listening');
  t.teardown(() => garbage.close());
  const { port } = garbage.address() as AddressInfo;
  const notes: string[] = [];
  const config = kafkaSection.parse(bus({ brokers: [`127.0.0.1:${port}`], topic: TOPIC }))!;
  const log = (_: string, message: string): void => void notes.push(message);
  const publisher = createKafkaPublisher(kafkaSettings(config, { baseDir: '/' }), log);
  publisher.publish(eventFor());
  t.ok(await until(() => notes.length > 0, WAIT_MS), 'is told of');
  await sleep(1_000);
  t.equal(publisher.stats().queued, 1, 'and waited for');
  t.equal(await publisher.close(50), 1);
});
