/**
 * The Kafka client held at arm's length: everything it does ends within a set time, its sockets can be cut at
 * once, an exception in one of their listeners (a broker that is none answers anything) ends that socket and
 * not the process, and it logs nothing by itself. tulios/kafkajs #879, #47, #919.
 */
import net from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import tls from 'node:tls';
import { Kafka, type ISocketFactory } from 'kafkajs';
import type { KafkaSettings } from './settings.js';

export type KafkaClient = Readonly<{
  kafka: Kafka;
  /** Cuts every connection and lets no new one be made. */
  destroy(): void;
}>;

const KEEP_ALIVE_MS = 30_000;

export function openKafka({ client }: KafkaSettings): KafkaClient {
  const sockets = new Set<net.Socket>();
  let isOpen = true;
  const socketFactory: ISocketFactory = ({ host, port, ssl, onConnect }) => {
    if (!isOpen) throw new Error('the client is closed');
    const name = net.isIP(host) === 0 ? { servername: host } : {};
    const socket: net.Socket = ssl
      ? tls.connect({ host, port, ...name, ...ssl }, onConnect)
      : net.connect({ host, port }, onConnect);
    socket.setKeepAlive(true, KEEP_ALIVE_MS);
    sockets.add(socket);
    socket.once('close', () => sockets.delete(socket));
    return guarded(socket);
  };
  return {
    kafka: new Kafka({ ...client, socketFactory, logCreator: () => () => undefined }),
    destroy() {
      isOpen = false;
      for (const socket of sockets) socket.destroy(new Error('the client is closed'));
    },
  };
}

type Listener = (...args: unknown[]) => void;

function guarded(socket: net.Socket): net.Socket {
  const on = socket.on.bind(socket) as (event: string, listener: Listener) => net.Socket;
  const safely = (event: string, listener: Listener): net.Socket =>
    on(event, (...args) => {
      try {
        listener(...args);
      } catch (error) {
        socket.destroy(error as Error);
      }
    });
  return Object.assign(socket, { on: safely });
}

/** Rejects after `ms`; what the call does later is nobody's concern. */
export async function within<T>(ms: number, what: string, call: Promise<T>): Promise<T> {
  const timer = new AbortController();
  const late = sleep(ms, undefined, { signal: timer.signal, ref: false }).then(() => {
    throw new Error(`${what} took longer than ${ms} ms`);
  });
  late.catch(() => undefined);
  call.catch(() => undefined);
  try {
    return await Promise.race([call, late]);
  } finally {
    timer.abort();
  }
}

type Cause = Readonly<{ type?: unknown; cause?: unknown; message?: unknown; name?: unknown }>;

/** The broker's error code at the bottom of what the client made of it, `MESSAGE_TOO_LARGE`, if any. */
export function protocolError(error: unknown): string | undefined {
  for (let at = error as Cause | undefined, depth = 0; at && depth < 5; at = at.cause as Cause, depth++) {
    if (typeof at.type === 'string') return at.type;
  }
  return undefined;
}

/** One line for the log. */
export function whyOf(error: unknown): string {
  const text = error instanceof Error ? error.message : String(error);
  return text.replace(/\s+/g, ' ').slice(0, 300);
}

export const MISSING_TOPIC = 'UNKNOWN_TOPIC_OR_PARTITION';

/** The topic is there, or made where the config allows it. Rejects where it is not. */
export async function ensureTopic(kafka: Kafka, { config }: KafkaSettings): Promise<void> {
  const { topic, createTopic, partitions, replicas = -1 } = config;
  const admin = kafka.admin();
  try {
    await admin.connect();
    const isThere = await admin
      .fetchTopicMetadata({ topics: [topic] })
      .then(({ topics }) => topics.some(({ partitions: found }) => found.length > 0))
      .catch((error: unknown) => {
        if (protocolError(error) === MISSING_TOPIC) return false;
        throw error;
      });
    if (isThere) return;
    if (!createTopic) throw new Error(`the topic ${topic} does not exist, and kafka.createTopic is off`);
    // The broker's clock tells which gate's clock runs ahead.
    const configEntries = [{ name: 'message.timestamp.type', value: 'LogAppendTime' }];
    const wanted = { topic, numPartitions: partitions, replicationFactor: replicas, configEntries };
    await admin.createTopics({ topics: [wanted], waitForLeaders: true });
  } finally {
    await admin.disconnect().catch(() => undefined);
  }
}
