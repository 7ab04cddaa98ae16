/**
 * A real Kafka broker for tests: Apache Kafka in KRaft mode on free ports of this machine, stopped, killed,
 * frozen and started again on the same data. `KAFKA_BROKERS` names one that runs, for tests that do it no
 * harm.
 */
import { spawn, execFileSync, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { createWriteStream, existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { connect } from 'node:net';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { Kafka, logLevel, type Admin } from 'kafkajs';
import { ROOT } from './gate.js';
import { freePort } from './redis.js';

const LIBS = resolve(ROOT, '.kafka/libs');
const START_MS = 60_000;
const STOP_MS = 10_000;
const USER = 'gate';

process.env['KAFKAJS_NO_PARTITIONER_WARNING'] = '1';

/** Why no broker can be started here; false where one can. */
export const ownKafkaMissing: string | false = lookForKafka();
/** Why there is no broker at all. */
export const kafkaMissing: string | false = process.env['KAFKA_BROKERS'] ? false : ownKafkaMissing;

function lookForKafka(): string | false {
  if (!existsSync(resolve(ROOT, '.kafka/complete')))
    return 'there is no Kafka broker (test/support/kafka/fetch.sh brings it)';
  try {
    const version = execFileSync('java', ['--version'], { encoding: 'utf8', timeout: 10_000 });
    const major = Number(/\s(\d+)[.\s]/.exec(version)?.[1]);
    return major >= 17 ? false : `Kafka needs Java 17 or later, found ${version.split('\n')[0] ?? ''}`;
  } catch {
    return 'Kafka needs a Java runtime';
  }
}

export type KafkaServer = Readonly<{
  brokers: string[];
  /** The listener that asks for user `gate` and its password, where one was asked for. */
  saslBrokers: string[];
  /** An admin client of its own; ends with the server. */
  admin: Admin;
  /** kill -9; the data stay. */
  kill(): Promise<void>;
  /** After `kill`: the same data and ports; `password`: another one for user `gate` from now on. */
  restart(password?: string): Promise<void>;
  /** SIGSTOP: the ports stay open, nobody answers. */
  freeze(): void;
  thaw(): void;
  stop(): Promise<void>;
}>;

type Ports = Readonly<{ client: number; controller: number; sasl: number | undefined }>;

/** `password`: also opens a listener with SASL/PLAIN. */
export async function startKafka(password?: string): Promise<KafkaServer> {
  const folder = mkdtempSync(join(tmpdir(), 'tidegate-kafka-'));
  const [client, controller] = [await freePort(), await freePort()];
  const ports: Ports = { client, controller, sasl: password === undefined ? undefined : await freePort() };
  writeProperties(folder, ports, password);
  java(folder, ['kafka.tools.StorageTool', 'format', '-t', 'dGlkZWdhdGUtdGVzdC1rYQ', '-c', 'server.properties']);
  let child: ChildProcess | undefined = await run(folder, ports);
  const brokers = [`127.0.0.1:${client}`];
  const admin = adminOf(brokers);
  const kill = async (signal: NodeJS.Signals = 'SIGKILL'): Promise<void> => {
    const ending = child;
    child = undefined;
    if (ending !== undefined) await end(ending, signal);
  };
  return {
    brokers,
    saslBrokers: ports.sasl === undefined ? [] : [`127.0.0.1:${ports.sasl}`],
    admin,
    kill: () => kill(),
    async restart(changed = password) {
      writeProperties(folder, ports, changed);
      child = await run(folder, ports);
    },
    freeze: () => void child?.kill('SIGSTOP'),
    thaw: () => void child?.kill('SIGCONT'),
    async stop() {
      child?.kill('SIGCONT');
      await admin.disconnect().catch(() => undefined);
      await kill();
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

/** The broker that `KAFKA_BROKERS` names, else one of its own; `stop` leaves the former as it is. */
export async function useKafka(): Promise<Pick<KafkaServer, 'brokers' | 'admin' | 'stop'>> {
  const given = process.env['KAFKA_BROKERS'];
  if (!given) return startKafka();
  const brokers = given.split(',');
  const admin = adminOf(brokers);
  return { brokers, admin, stop: () => admin.disconnect() };
}

/** A client that says nothing and gives up soon. */
export function kafkaClient(brokers: string[]): Kafka {
  const retry = { retries: 8, initialRetryTime: 50, maxRetryTime: 500 };
  return new Kafka({ brokers, retry, logLevel: logLevel.NOTHING, clientId: 'tidegate-test' });
}

const adminOf = (brokers: string[]): Admin => kafkaClient(brokers).admin();

function writeProperties(folder: string, ports: Ports, password: string | undefined): void {
  const { client, controller, sasl } = ports;
  const at = (name: string, port: number): string => `${name}://127.0.0.1:${port}`;
  const open = [at('PLAINTEXT', client), ...(sasl === undefined ? [] : [at('SASL_PLAINTEXT', sasl)])];
  const module = 'org.apache.kafka.common.security.plain.PlainLoginModule';
  const lines = [
    'process.roles=broker,controller',
    'node.id=1',
    `controller.quorum.voters=1@127.0.0.1:${controller}`,
    `listeners=${[...open, at('CONTROLLER', controller)].join()}`,
    `advertised.listeners=${open.join()}`,
    'listener.security.protocol.map=PLAINTEXT:PLAINTEXT,SASL_PLAINTEXT:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT',
    'controller.listener.names=CONTROLLER',
    `log.dirs=${join(folder, 'data')}`,
    'offsets.topic.replication.factor=1',
    'offsets.topic.num.partitions=1',
    'transaction.state.log.replication.factor=1',
    'transaction.state.log.min.isr=1',
    'transaction.state.log.num.partitions=1',
    'group.initial.rebalance.delay.ms=0',
    'auto.create.topics.enable=false',
    // Else one that was killed waits nine seconds for its former self to be given up.
    'broker.session.timeout.ms=1000',
    'broker.heartbeat.interval.ms=250',
    'num.network.threads=2',
    'num.io.threads=2',
    ...(sasl === undefined
      ? []
      : [
          'sasl.enabled.mechanisms=PLAIN',
          `listener.name.sasl_plaintext.plain.sasl.jaas.config=${module} required user_${USER}="${password}";`,
        ]),
  ];
  writeFileSync(join(folder, 'server.properties'), `${lines.join('\n')}\n`);
}

const OPTIONS = ['-Xmx256m', '-XX:TieredStopAtLevel=1', '-XX:+UseSerialGC', '-cp', `${LIBS}/*`];

function java(folder: string, args: readonly string[]): void {
  execFileSync('java', [...OPTIONS, ...args], { cwd: folder, timeout: START_MS, stdio: 'pipe' });
}

/** Brokers that would outlive a test file that ends by throwing. */
const running = new Set<ChildProcess>();
process.once('exit', () => running.forEach((child) => child.kill('SIGKILL')));

async function run(folder: string, { client, sasl }: Ports): Promise<ChildProcess> {
  const log = join(folder, 'broker.log');
  const child = spawn('java', [...OPTIONS, 'kafka.Kafka', 'server.properties'], {
    cwd: folder,
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  const file = createWriteStream(log, { flags: 'a' });
  child.stdout.pipe(file, { end: false });
  child.stderr.pipe(file, { end: false });
  running.add(child);
  child.once('exit', () => {
    running.delete(child);
    file.end();
  });
  const ports = [client, ...(sasl === undefined ? [] : [sasl])];
  const untilMs = Date.now() + START_MS;
  while (!(await Promise.all(ports.map(accepts))).every(Boolean)) {
    if (Date.now() > untilMs || child.exitCode !== null) {
      await end(child, 'SIGKILL');
      throw new Error(`Kafka did not start:\n${readFileSync(log, 'utf8').slice(-2_000)}`);
    }
    await sleep(50);
  }
  return child;
}

function accepts(port: number): Promise<boolean> {
  return new Promise((done) => {
    const socket = connect(port, '127.0.0.1');
    socket.once('connect', () => done(true));
    socket.once('error', () => done(false));
    socket.once('connect', () => socket.destroy());
  });
}

async function end(child: ChildProcess, signal: NodeJS.Signals): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const exited = once(child, 'exit');
  child.kill(signal);
  const timer = setTimeout(() => child.kill('SIGKILL'), STOP_MS);
  await exited;
  clearTimeout(timer);
}
