/**
 * The correlator over the bus in memory, for a gate without Kafka. A reload makes it anew; detectors whose
 * settings stayed go on from where they were, others start empty.
 */
import type { Consumer } from '../bus/bus-contract.js';
import { createMemoryBus, type MemoryBus } from '../bus/memory.js';
import type { Config } from '../config/schema.js';
import type { BanBook } from '../controls/ban-book-contract.js';
import { describeFault } from '../core/errors.js';
import { unpackObservation } from '../core/packed-observation.js';
import type { Saved } from '../correlator/detector.js';
import { buildCorrelator, type BuiltCorrelator, type CorrelatorView } from './correlator.js';
import type { Log } from './engines.js';

export type InMemoryCorrelator = Readonly<{
  /** Packed observations of a worker, one a line; what is none is passed over. */
  offer(lines: string): void;
  /** Starts, restarts or ends it as the config now says. Never rejects. */
  follow(): Promise<void>;
  /** Undefined where it does not run. */
  view(): CorrelatorView | undefined;
  close(): Promise<void>;
}>;

type Deps = Readonly<{ config: () => Config; book: Pick<BanBook, 'ban' | 'note'>; log: Log }>;
type Running = Readonly<{ text: string; built: BuiltCorrelator; consumer: Consumer }>;

const CLOSE_MS = 1_000;

export function createInMemoryCorrelator({ config, book, log }: Deps): InMemoryCorrelator {
  let running: Running | undefined;
  /** Outlives a reload, and with it what waits and the offsets. */
  let bus: MemoryBus | undefined;
  let kept: ReadonlyMap<number, Saved> = new Map();
  let work: Promise<void> = Promise.resolve();
  let closed = false;

  async function run(text: string): Promise<void> {
    const now = config();
    bus ??= createMemoryBus({ partitions: 1, queueEvents: now.correlator.queueMax });
    const built = buildCorrelator(now, { book, log, from: kept });
    const { engine } = built;
    const consumer = bus.consumer();
    await built.start();
    running = { text, built, consumer };
    await consumer.start({
      open: (partition) => engine.open(partition),
      take: (delivered) => engine.take(delivered),
      settle: () => engine.settle(),
      lost(partitions) {
        kept = engine.saved();
        engine.lost(partitions);
      },
    });
  }

  async function end(): Promise<void> {
    if (running === undefined) return;
    const { built, consumer } = running;
    running = undefined;
    await consumer.close(CLOSE_MS);
    await built.close();
  }

  async function follow(): Promise<void> {
    const text = closed ? undefined : textOf(config());
    if (text === running?.text) return;
    await end();
    if (text !== undefined) await run(text);
  }

  const inTurn = (): Promise<void> => {
    work = work.then(follow).catch((error: unknown) => log('error', `correlator: ${describeFault(error)}`));
    return work;
  };
  return {
    offer(lines) {
      if (bus === undefined) return;
      for (const line of lines.split('\n')) {
        const observation = unpackObservation(line);
        if (observation !== undefined) bus.offer(observation);
      }
    },
    follow: inTurn,
    view() {
      if (running === undefined || bus === undefined) return undefined;
      const { built, consumer } = running;
      return { engine: built.engine.stats(), consumer: consumer.stats(), busDropped: bus.dropped() };
    },
    async close() {
      closed = true;
      await inTurn();
    },
  };
}

/** Changes with whatever it is built from; undefined where it shall not run. */
function textOf({ kafka, correlator, reputation, baseDir }: Config): string | undefined {
  if (kafka !== undefined || !correlator.enabled) return undefined;
  const { allowlist, widest, ownAddresses, poll } = reputation;
  return JSON.stringify([correlator, allowlist, widest, ownAddresses, poll, baseDir]);
}
