/**
 * The supervisor's side of its correlator, which runs in a thread of its own: what workers observed goes
 * there, asks to the book of bans come back. Bounded: a thread that is behind loses observations, counted;
 * one that dies is started again, empty.
 */
import { fileURLToPath } from 'node:url';
import { Worker } from 'node:worker_threads';
import { nextRestart } from '../cluster/backoff.js';
import { asObservationBatch, OBSERVATIONS_TOPIC } from '../cluster/observations.js';
import type { Config } from '../config/schema.js';
import type { BanBook, BanOutcome } from '../controls/ban-book-contract.js';
import type { Channel } from '../core/channel.js';
import { describeFault } from '../core/errors.js';
import type { CorrelatorView } from './correlator.js';
import type { FromThread, ToThread } from './correlator-messages.js';
import type { Log } from './engines.js';

export type EmbeddedCorrelator = Readonly<{
  /** Takes observations of this worker. */
  attach(channel: Channel): void;
  /** Starts, changes or ends it as the config now says. Never rejects, does not wait for the thread. */
  follow(): Promise<void>;
  /** As of about a second ago; undefined where it does not run. */
  view(): CorrelatorView | undefined;
  /** Has what it holds looked at once more, for at most some seconds. */
  close(): Promise<void>;
}>;

type Deps = Readonly<{ config: () => Config; book: Pick<BanBook, 'ban' | 'note'>; log: Log }>;

const CLOSE_MS = 3_000;
const HEAP_MB = 512;

/** In a source tree the loader of TypeScript must begin in the thread too. */
function openThread(): Worker {
  const options = { resourceLimits: { maxOldGenerationSizeMb: HEAP_MB } };
  const here = import.meta.url;
  if (!here.endsWith('.ts')) {
    return new Worker(fileURLToPath(new URL('./correlator-thread.js', here)), options);
  }
  const entry = JSON.stringify(new URL('./correlator-thread.ts', here).href);
  const code = `import('tsx/esm/api').then(({ register }) => { register(); return import(${entry}); });`;
  return new Worker(code, { ...options, eval: true });
}

export function createEmbeddedCorrelator(deps: Deps): EmbeddedCorrelator {
  return new Embedded(deps);
}

class Embedded implements EmbeddedCorrelator {
  private thread: Worker | undefined;
  private shown: CorrelatorView | undefined;
  /** Observations on the line to the thread. */
  private underWay = 0;
  private dropped = 0;
  private deaths = 0;
  private startedMs = 0;
  private restart: NodeJS.Timeout | undefined;
  private closed = false;

  constructor(private readonly deps: Deps) {}

  attach(channel: Channel): void {
    channel.on(OBSERVATIONS_TOPIC, (body) => {
      const batch = asObservationBatch(body);
      if (this.thread === undefined || batch === undefined) return;
      if (this.underWay + batch[0] > this.deps.config().correlator.queueMax) {
        this.dropped += batch[0];
        return;
      }
      this.underWay += batch[0];
      this.send({ kind: 'observations', batch });
    });
  }

  async follow(): Promise<void> {
    const { kafka, correlator } = this.deps.config();
    const wanted = kafka === undefined && correlator.enabled && !this.closed;
    if (!wanted) return this.end();
    if (this.thread === undefined) this.begin();
    else this.send({ kind: 'config', config: this.deps.config() });
  }

  view(): CorrelatorView | undefined {
    return this.shown && { ...this.shown, busDropped: this.shown.busDropped + this.dropped };
  }

  async close(): Promise<void> {
    this.closed = true;
    await this.end();
  }

  private begin(): void {
    clearTimeout(this.restart);
    this.startedMs = performance.now();
    const thread = openThread();
    this.thread = thread;
    this.underWay = 0;
    thread.unref();
    thread.on('message', (message: FromThread) => this.hear(thread, message));
    thread.on('error', (error) => this.deps.log('error', `correlator: its thread failed: ${error.message}`));
    thread.on('exit', () => this.onExit(thread));
    this.send({ kind: 'config', config: this.deps.config() });
  }

  private onExit(thread: Worker): void {
    if (this.thread !== thread) return;
    this.thread = undefined;
    this.shown = undefined;
    const next = nextRestart(this.deaths, performance.now() - this.startedMs);
    this.deaths = next.deaths;
    this.restart = setTimeout(() => void this.follow(), next.waitMs).unref();
  }

  private async end(): Promise<void> {
    clearTimeout(this.restart);
    const { thread } = this;
    if (thread === undefined) return;
    const closed = new Promise<void>((resolve) => {
      const timer = setTimeout(resolve, CLOSE_MS);
      thread.once('exit', () => {
        clearTimeout(timer);
        resolve();
      });
    });
    this.send({ kind: 'close' });
    // It may still ask the book, and is answered, until it has ended.
    this.thread = undefined;
    this.shown = undefined;
    await closed;
    await thread.terminate();
  }

  private send(message: ToThread): void {
    this.thread?.postMessage(message);
  }

  private hear(thread: Worker, message: FromThread): void {
    switch (message.kind) {
      case 'took':
        this.underWay -= message.count;
        return;
      case 'view':
        if (this.thread === thread) this.shown = message.view;
        return;
      case 'log':
        this.deps.log(message.level, message.text, message.fields);
        return;
      case 'ban':
        return this.answer(thread, message.id, this.deps.book.ban(message.asks));
      case 'note':
        return this.answer(
          thread,
          message.id,
          this.deps.book.note(message.note).then(() => []),
        );
    }
  }

  private answer(thread: Worker, id: number, asked: Promise<readonly BanOutcome[]>): void {
    const tell = (message: ToThread): void => thread.postMessage(message);
    asked.then(
      (outcomes) => tell({ kind: 'answer', id, outcomes }),
      (error: unknown) => tell({ kind: 'answer', id, outcomes: [], problem: describeFault(error) }),
    );
  }
}
