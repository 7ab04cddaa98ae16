/**
 * Links that live in a thread of their own: what kafkajs computes costs requests nothing, and an exception
 * that it throws from a timer or a socket ends that thread, not the gate. The next link gets a new one.
 */
import { Worker } from 'node:worker_threads';
import { within } from './kafka-client.js';
import type { ThreadCall, ThreadReply } from './kafka-thread.js';
import { RecordsRefused, type Link } from './link.js';
import { packBatch } from './packed-batch.js';
import type { KafkaSettings } from './settings.js';

export type Links = Readonly<{
  /** Rejects where there is no broker to be had. */
  connect(): Promise<Link>;
  /** Ends the thread with whatever it does. */
  end(): void;
}>;

/** Megabytes; what it holds is one batch. */
const LIMITS = { maxOldGenerationSizeMb: 96, maxYoungGenerationSizeMb: 16 };
const SCRIPT = new URL('./kafka-thread.js', import.meta.url);
/** The thread keeps its own, shorter times. */
const SLACK_MS = 2_000;

type Waiting = Readonly<{ resolve: () => void; reject: (error: Error) => void }>;
type Thread = Readonly<{ worker: Worker; waiting: Map<number, Waiting> }>;

export function threadLinks(settings: KafkaSettings): Links {
  const { requestTimeout, connectTimeout } = settings.config;
  const limitMs = 2 * (requestTimeout + connectTimeout) + SLACK_MS;
  let thread: Thread | undefined;
  let calls = 0;
  const drop = (gone: Thread, why: string): void => {
    if (thread === gone) thread = undefined;
    for (const { reject } of gone.waiting.values()) reject(new Error(why));
    gone.waiting.clear();
    gone.worker.terminate().catch(() => undefined);
  };
  const open = (): Thread => {
    const worker = new Worker(SCRIPT, { workerData: settings, resourceLimits: LIMITS });
    const opened: Thread = { worker, waiting: new Map() };
    worker.unref();
    worker.on('message', (reply: ThreadReply) => settle(opened, reply));
    worker.on('error', (error) => drop(opened, `its thread ended: ${error.message}`));
    worker.on('exit', () => drop(opened, 'its thread ended'));
    return opened;
  };
  /** A call that is not answered in time takes the thread with it. */
  const call = async (on: Thread, of: (n: number) => ThreadCall, bytes?: ArrayBuffer): Promise<void> => {
    // Nobody would answer.
    if (thread !== on) throw new Error('its thread ended');
    const n = ++calls;
    const answered = new Promise<void>((resolve, reject) => on.waiting.set(n, { resolve, reject }));
    on.worker.postMessage(of(n), bytes === undefined ? [] : [bytes]);
    try {
      await within(limitMs, 'the thread', answered);
    } catch (error) {
      if (on.waiting.delete(n)) drop(on, 'its thread did not answer');
      throw error;
    }
  };
  return {
    async connect() {
      const on = (thread ??= open());
      await call(on, (n) => ({ kind: 'open', n }));
      return {
        async send(messages) {
          const batch = packBatch(messages);
          await call(on, (n) => ({ kind: 'send', n, batch }), batch.data.buffer);
        },
        close: () => on.worker.postMessage({ kind: 'close' } satisfies ThreadCall),
      };
    },
    end() {
      if (thread !== undefined) drop(thread, 'the publisher is closed');
    },
  };
}

function settle({ waiting }: Thread, { n, problem }: ThreadReply): void {
  const waits = waiting.get(n);
  waiting.delete(n);
  if (problem === undefined) waits?.resolve();
  else if (problem.refused === undefined) waits?.reject(new Error(problem.why));
  else waits?.reject(new RecordsRefused(problem.refused === 'too-large', new Error(problem.why)));
}
