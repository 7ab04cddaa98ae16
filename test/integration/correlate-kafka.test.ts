/** `tidegate correlate` on a real Kafka and Redis: what it finds, and that nothing it meets changes it. */
import { execFile } from 'node:child_process';
import { resolve } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { promisify } from 'node:util';
import t, { type Test } from 'tap';
import { CompressionTypes, type Producer } from 'kafkajs';
import { createKafkaConsumer } from '../../src/bus/kafka-consumer.js';
import { kafkaSettings } from '../../src/bus/settings.js';
import { loadConfig } from '../../src/config/load.js';
import { loadBanScript } from '../../src/controls/ban-script.js';
import { createRedisBook } from '../../src/controls/redis-book.js';
import { createStateStore } from '../../src/correlator/state-store.js';
import { connectRedis } from '../../src/redis/client.js';
import { redisSettings } from '../../src/redis/settings.js';
import { buildCorrelator } from '../../src/roles/correlator.js';
import { bansSection } from '../../src/controls/config.js';
import { openRedisBook } from '../../src/controls/open-redis-book.js';
import type { Ban } from '../../src/controls/ban.js';
import type { Observation } from '../../src/core/observation.js';
import { redisSection } from '../../src/redis/config.js';
import {
  carrier,
  crawler,
  batch,
  launch,
  office,
  probe,
  stuffing,
  together,
} from '../../src/correlator/testing/index.js';
import { rotation } from '../../src/correlator/testing-scrapers.js';
import { startCorrelator, writeConfig, type CorrelatorChild } from '../support/correlator.js';
import { messageOf, type Message } from '../support/events.js';
import { ROOT, startGate } from '../support/gate.js';
import {
  kafkaClient,
  kafkaMissing,
  ownKafkaMissing,
  startKafka,
  useKafka,
  type KafkaServer,
} from '../support/kafka.js';
import { redisMissing, startRedis, type RedisServer } from '../support/redis.js';
import { until } from '../support/case.js';
import { exchange, request } from '../support/raw-client.js';

const missing = redisMissing || kafkaMissing;
/** The broker waits ten seconds for one that was killed: a few times are enough for every day. */
const FULL = process.env['TIDEGATE_TEST_FULL'] === '1';
const HOUR_MS = 3_600_000;
const PARTITIONS = 4;
const ROOMY = [{ name: 'max.message.bytes', value: String(8 * 1024 ** 2) }];

let kafka: Pick<KafkaServer, 'brokers' | 'admin' | 'stop'>;
let own: KafkaServer | undefined;
let redis: RedisServer;
let producer: Producer;
const runs = Date.now().toString(36);

t.before(async () => {
  if (missing !== false) return;
  redis = await startRedis();
  if (ownKafkaMissing === false) kafka = own = await startKafka();
  else kafka = await useKafka();
  await kafka.admin.connect();
  producer = kafkaClient(kafka.brokers).producer();
  await producer.connect();
});
t.teardown(async () => {
  await producer?.disconnect().catch(() => undefined);
  await kafka?.stop();
  await redis?.stop();
});

/** A topic and a key prefix of its own, with what the test asks of both. */
type Place = Readonly<{
  topic: string;
  group: string;
  file: string;
  tree: Record<string, unknown>;
  bans(): Promise<readonly Ban[]>;
  start(): Promise<CorrelatorChild>;
  send(messages: readonly Message[]): Promise<void>;
  /** All that lies on the topic was read, and committed. */
  caughtUp(timeoutMs?: number): Promise<boolean>;
}>;

async function place(test: Test, name: string, more: Record<string, unknown> = {}): Promise<Place> {
  const topic = `t-${name}-${runs}`;
  const group = `g-${name}-${runs}`;
  await kafka.admin.createTopics({
    topics: [{ topic, numPartitions: PARTITIONS, configEntries: ROOMY }],
    waitForLeaders: true,
  });
  const shared = { url: `redis://127.0.0.1:${redis.port}`, keyPrefix: `${name}:` };
  const tree = {
    kafka: { brokers: kafka.brokers, topic, group },
    redis: shared,
    correlator: { listen: '127.0.0.1:0', evaluateEvery: '500ms', ...more },
  };
  const { file, remove } = writeConfig(tree);
  const rules = bansSection.parse({});
  const { book, settled } = await openRedisBook(redisSection.parse(shared)!, {
    baseDir: '/',
    rules: () => rules,
  });
  await settled(2_000);
  test.teardown(async () => {
    await book.close();
    remove();
  });
  return {
    topic,
    group,
    file,
    tree,
    bans: async () => (await book.read()).bans,
    async start() {
      const child = await startCorrelator(file);
      test.teardown(() => child.kill());
      return child;
    },
    async send(messages) {
      for (let at = 0; at < messages.length; at += 2_000) {
        await producer.send({
          topic,
          compression: CompressionTypes.GZIP,
          messages: messages.slice(at, at + 2_000),
        });
      }
    },
    caughtUp: (timeoutMs = 20_000) =>
      // The broker's coordinator may still be loading, or the broker away.
      until(() => isCaughtUp(topic, group).catch(() => false), timeoutMs),
  };
}

const forgets = (group: string): Promise<boolean> =>
  kafka.admin.deleteGroups([group]).then(
    () => true,
    () => false,
  );

async function isCaughtUp(topic: string, groupId: string): Promise<boolean> {
  await sleep(100);
  const ends = await kafka.admin.fetchTopicOffsets(topic);
  const [found] = await kafka.admin.fetchOffsets({ groupId, topics: [topic] });
  return ends.every(({ partition, high }) => {
    const at = found?.partitions.find((each) => each.partition === partition)?.offset;
    return Number(high) === 0 || Number(at) === Number(high);
  });
}

/** The hour that has just ended: 58 addresses try 4 292 logins. */
const hour = { startMs: Date.now() - HOUR_MS - 5_000, lengthMs: HOUR_MS };
const attack = stuffing({ ...hour, addresses: 58, each: 74 });
const attackers = [...attack.attackers].map((address) => `network:${address}`).sort();
const tail = { startMs: hour.startMs + HOUR_MS - 600_000, lengthMs: 600_000 };

function lookAlikes(): Observation[] {
  return together(
    office(hour),
    probe(hour),
    carrier(tail, 150),
    launch(tail, 300),
    batch(tail),
    crawler(tail),
  );
}

/** The same traffic, from another time on. */
function later(traffic: readonly Observation[], startMs: number): Observation[] {
  const shiftMs = startMs - Math.min(...traffic.map(({ timeMs }) => timeMs));
  return traffic.map((one) => ({ ...one, timeMs: Math.floor(one.timeMs + shiftMs) }));
}

const enforced = (bans: readonly Ban[]): string[] =>
  bans
    .filter(({ mode }) => mode === 'enforce')
    .map(({ subject }) => `${subject.kind}:${subject.value}`)
    .sort();

/** Nobody else, and nobody twice. */
async function exactlyOnce(test: Test, at: Place, wanted = attackers): Promise<void> {
  await until(async () => enforced(await at.bans()).length >= wanted.length, 15_000);
  const bans = await at.bans();
  test.same(enforced(bans), wanted);
  test.ok(
    bans.every(({ strikes }) => strikes === 1),
    'nobody was banned twice',
  );
}

const POISON: readonly Message[] = [
  { key: 'a', value: 'no json' },
  { key: 'b', value: '{"v":1' },
  { key: 'c', value: '{"v":99,"time":"2026-01-01T00:00:00Z"}' },
  { key: 'd', value: '[]' },
  { key: 'e', value: JSON.stringify({ v: 1, time: 'never', client: null }) },
  { key: 'f', value: `{"v":1,"requestId":"${'x'.repeat(1_100_000)}"}` },
];

t.test(
  '4 292 logins of 58 addresses in an hour are banned with evidence; look-alikes and poison are not',
  { skip: missing },
  async (test) => {
    const at = await place(test, 'main');
    const rotating = later(rotation({ lengthMs: 540_000 }), tail.startMs);
    const good = together(attack.traffic, lookAlikes(), rotating).map(messageOf);
    const future = messageOf({ ...attack.traffic[0]!, requestId: 'f', timeMs: Date.now() + 7 * 86_400_000 });
    const hostile = messageOf({
      ...attack.traffic[0]!,
      requestId: 'h',
      ip: '\u001b[31m',
      key: '__proto__',
      path: '\u0000'.repeat(999),
    });
    const poison = [...POISON, future];
    const every = Math.floor(good.length / 10);
    const messages = good.flatMap((message, n) =>
      n % every === 0 ? [...poison, hostile, message] : [message],
    );
    await at.send(messages);
    const correlator = await at.start();
    test.ok(await at.caughtUp(), 'everything was read');
    await until(async () => enforced(await at.bans()).length > attackers.length, 15_000);
    const bans = await at.bans();
    const logins = bans.filter(({ evidence }) => evidence?.detector === 'failedLogins');
    test.same(enforced(logins), attackers);
    test.match(logins[0], {
      actor: 'detector:failedLogins',
      reason: /\d+ addresses failed \d+ logins/,
      evidence: { pattern: /POST \/login/, count: Number, requestIds: [String] },
    });
    const rotators = new Set(rotating.flatMap(({ key, session, apiKey }) => [key, session, apiKey]));
    const others = bans.filter(
      ({ evidence, mode }) => evidence?.detector !== 'failedLogins' && mode === 'enforce',
    );
    test.ok(others.length > 0, 'the rotation of tokens was found', { others: others.length });
    test.same(
      others.filter(({ subject }) => !rotators.has(subject.value)),
      [],
      'and nothing else',
    );
    const rejected = await Promise.all(
      ['not-json', 'version', 'shape', 'future', 'too-large'].map((cause) =>
        correlator.metric(`correlator_rejected{cause="${cause}"}`),
      ),
    );
    test.ok(
      rejected.every((count) => (count ?? 0) >= 10),
      'poison was counted',
      { rejected },
    );
    test.match(await correlator.health(), { ok: true, kafka: true, redis: true, leading: true, lag: 0 });
    test.equal(await correlator.stop(), 0);
  },
);

/** Small enough to be read again and again: the attack and an office. */
const siege = together(attack.traffic, office(hour)).map(messageOf);

t.test(
  'a topic that is read again bans nobody twice, with its saved state and without',
  { skip: missing },
  async (test) => {
    const at = await place(test, 'again');
    await at.send(siege);
    const first = await at.start();
    test.ok(await at.caughtUp());
    await exactlyOnce(test, at);
    await first.stop();
    const before = await at.bans();
    for (const keepsState of [true, false]) {
      if (!keepsState) {
        const keys = await redis.client.keys('again:cor:*');
        test.ok(keys.length > 0, 'there is a state to lose');
        await redis.client.del(...keys);
      }
      // A group that is unknown begins anew.
      await until(() => forgets(at.group), 10_000);
      const again = await at.start();
      test.ok(await at.caughtUp());
      const wanted = keepsState ? 'redelivered' : 'judged';
      const count = async (): Promise<number> =>
        (await again.metric(`correlator_events{fate="${wanted}"}`)) ?? 0;
      test.ok(await until(async () => (await count()) === siege.length), `all are ${wanted}`);
      await sleep(1_200);
      await again.stop();
      test.same(await at.bans(), before, 'nothing was added, nothing extended');
    }
  },
);

t.test('killed at any moment, and again: the same bans, once', { skip: missing }, async (test) => {
  const at = await place(test, 'killed');
  const pieces = 40;
  const sending = (async () => {
    for (let piece = 0; piece < pieces; piece++) {
      const from = Math.floor((siege.length * piece) / pieces);
      await at.send(siege.slice(from, Math.floor((siege.length * (piece + 1)) / pieces)));
      await sleep(120);
    }
  })();
  for (const ms of FULL ? [150, 400, 900, 1_300, 1_700, 2_500] : [700]) {
    const victim = await at.start();
    await until(async () => ((await victim.metric('correlator_taken')) ?? 0) > 0, 10_000);
    await sleep(ms);
    await victim.kill();
  }
  const last = await at.start();
  await sending;
  test.ok(await at.caughtUp(), 'everything was read');
  await exactlyOnce(test, at);
  test.ok(
    await until(async () => (await last.metric('correlator_leading')) === 1, 10_000),
    'the lease went over',
  );
  await last.stop();
});

t.test(
  'two instances, one of which comes and one of which goes in mid-window: the same bans as one',
  { skip: missing },
  async (test) => {
    const at = await place(test, 'two');
    const third = Math.floor(siege.length / 3);
    const [one, two] = await Promise.all([at.start(), at.start()]);
    await at.send(siege.slice(0, third));
    test.ok(await at.caughtUp());
    const partitions = await Promise.all([one!, two!].map((each) => each.metric('correlator_partitions')));
    test.equal((partitions[0] ?? 0) + (partitions[1] ?? 0), PARTITIONS, 'they share the partitions', {
      partitions,
    });
    const leading = await Promise.all([one!, two!].map((each) => each.metric('correlator_leading')));
    test.equal((leading[0] ?? 0) + (leading[1] ?? 0), 1, 'one of them evaluates');
    // The one that evaluates goes, in the middle of what it reads.
    const [leader, other] = leading[0] === 1 ? [one!, two!] : [two!, one!];
    await at.send(siege.slice(third, 2 * third));
    test.equal(await leader.stop(), 0);
    await at.send(siege.slice(2 * third));
    test.ok(await at.caughtUp(30_000), 'the other takes its partitions over');
    await exactlyOnce(test, at);
    await other.stop();
  },
);

t.test(
  'a broker that dies and comes back under load: nothing is lost, nobody banned twice',
  { skip: missing || ownKafkaMissing },
  async (test) => {
    const at = await place(test, 'broker');
    const half = Math.floor(siege.length / 2);
    await at.send(siege.slice(0, half));
    const correlator = await at.start();
    await until(async () => ((await correlator.metric('correlator_taken')) ?? 0) > 0, 10_000);
    await own!.kill();
    test.ok(
      await until(async () => (await correlator.health())?.['kafka'] === false, 15_000),
      'it says that Kafka is away',
    );
    await own!.restart();
    await at.send(siege.slice(half));
    test.ok(await at.caughtUp(30_000), 'it reads on');
    await exactlyOnce(test, at);
    test.equal(await correlator.stop(), 0);
  },
);

t.test(
  'the next request of one that was banned is refused at stage 1 by a gate on that Redis',
  { skip: missing },
  async (test) => {
    const at = await place(test, 'gate');
    // Its own events are of now, an hour after those that lie on the topic: they would make them late.
    const config = { redis: at.tree['redis'], correlator: { enabled: false }, trustedProxies: ['127.0.0.1'] };
    const gate = await startGate(config);
    test.teardown(() => gate.stop());
    const ask = async (ip: string): Promise<number> => {
      const headers: [string, string][] = [['X-Forwarded-For', ip]];
      return (await exchange(gate.port, request({ headers }))).status;
    };
    const [attacker] = [...attack.attackers];
    test.equal(await ask(attacker!), 502, 'before, it comes through to an origin that is not there');
    await at.send(siege);
    await at.start();
    await exactlyOnce(test, at);
    test.ok(await until(async () => (await ask(attacker!)) === 403, 5_000), 'refused within seconds');
    const event = await gate.event(({ client, status }) => client.ip === attacker && status === 403);
    test.match(event.steps[0], { stage: 'reputation', findings: [{ kind: 'deny' }] });
    test.equal(await ask('203.0.113.50'), 502, 'the office is not');
  },
);

t.test('a replay of the topic tells the same, and writes nothing', { skip: missing }, async (test) => {
  const at = await place(test, 'replay');
  await at.send(siege);
  const main = resolve(ROOT, 'dist/src/main.js');
  const args = [main, 'replay', 'topic', '--config', at.file, '--json'];
  const { stdout } = await promisify(execFile)(process.execPath, args, { maxBuffer: 64 * 1024 ** 2 });
  const report = JSON.parse(stdout) as { bans: Ban[]; lines: number };
  test.equal(report.lines, siege.length);
  test.same([...new Set(enforced(report.bans))], attackers);
  test.same(await at.bans(), []);
  test.same(await redis.client.keys('replay:*'), []);
  const { groups } = await kafka.admin.listGroups();
  const left = groups.filter(({ groupId }) => groupId.startsWith(`${at.group}-replay`));
  const [found] =
    left.length === 0
      ? []
      : await kafka.admin.fetchOffsets({ groupId: left[0]!.groupId, topics: [at.topic] });
  test.ok(
    (found?.partitions ?? []).every(({ offset }) => offset === '-1'),
    'nothing was committed',
  );
});

/** Bans, and saves its state where `saves` is set; ends before it commits anything. */
async function endBeforeCommit(test: Test, at: Place, saves: boolean): Promise<void> {
  const config = await loadConfig(at.file);
  const { baseDir, bans } = config;
  const client = connectRedis(redisSettings(config.redis!, { baseDir }), loadBanScript());
  const log = (): void => undefined;
  const states = createStateStore({
    evaluate: client.evaluate,
    group: `${at.topic}/${at.group}`,
    onTrouble: log,
  });
  const failing = { ...states, save: () => Promise.reject(new Error('ended before it saved')) };
  const book = createRedisBook({ client, keyPrefix: config.redis!.keyPrefix, rules: () => bans });
  const { engine, ...built } = buildCorrelator(config, { book, log, states: saves ? states : failing });
  const consumer = createKafkaConsumer(kafkaSettings(config.kafka!, { baseDir }), { log });
  await client.settled(2_000);
  await built.start();
  let settled = 0;
  await consumer.start({
    open: (partition) => engine.open(partition),
    take: (delivered) => engine.take(delivered),
    lost: (partitions) => engine.lost(partitions),
    async settle() {
      await engine.settle();
      settled++;
      throw new Error('ended before it committed');
    },
  });
  const all = async (): Promise<boolean> => enforced(await at.bans()).length === attackers.length;
  test.ok(await until(async () => (await all()) && (settled > 1 || !saves), 15_000), 'the effect is there');
  await consumer.close(2_000);
  await built.close();
  await client.close();
}

t.test(
  'ended between effect and commit, before or after the state was saved: the same bans',
  { skip: missing },
  async (test) => {
    const once = async (saves: boolean): Promise<void> => {
      const at = await place(test, saves ? 'saved' : 'unsaved');
      await at.send(siege);
      await endBeforeCommit(test, at, saves);
      const before = await at.bans();
      const next = await at.start();
      test.ok(await at.caughtUp());
      await sleep(1_000);
      test.same(await at.bans(), before, saves ? 'with its state' : 'without');
      await next.stop();
    };
    await Promise.all([once(true), once(false)]);
  },
);

t.test('a Redis that is away for a while is waited for; nothing is lost', { skip: missing }, async (test) => {
  const at = await place(test, 'away');
  const correlator = await at.start();
  const half = Math.floor(siege.length / 2);
  await at.send(siege.slice(0, half));
  test.ok(await at.caughtUp());
  test.teardown(() => redis.process.kill('SIGCONT'));
  redis.process.kill('SIGSTOP');
  await at.send(siege.slice(half));
  test.ok(await until(async () => (await correlator.health())?.['redis'] === false, 15_000), 'it says so');
  await sleep(500);
  test.notOk(await at.caughtUp(1_000), 'nothing counts as read meanwhile');
  redis.process.kill('SIGCONT');
  test.ok(await at.caughtUp(30_000));
  await exactlyOnce(test, at);
  test.equal(await correlator.stop(), 0);
});
