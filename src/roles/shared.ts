/** What the workers of a gate share, held by the supervisor: counters, scores, bans, the correlator. */
import type { Config } from '../config/schema.js';
import type { Channel } from '../core/channel.js';
import { steadyClock, systemClock } from '../core/clock.js';
import { memoryStore, serveStore, type MemoryStore } from '../limits/index.js';
import { serveObserved } from '../reputation/serve-observed.js';
import { createBanDesk, type BanDesk } from './ban-desk.js';
import { createEmbeddedCorrelator, type EmbeddedCorrelator } from './embedded-correlator.js';
import type { Log } from './engines.js';

export type Shared = Readonly<{
  store: MemoryStore;
  bans: BanDesk;
  correlator: EmbeddedCorrelator;
  /** Reads what was saved. Never throws: what is damaged is a warning. */
  start(): Promise<void>;
  /** Opens anew what the config, changed meanwhile, wants otherwise. Never rejects. */
  follow(): Promise<void>;
  /** Serves one worker's line until the returned function is called. */
  attach(channel: Channel): () => void;
  /** Saves once more. */
  close(): Promise<void>;
}>;

export function createShared(config: () => Config, log: Log): Shared {
  const { limits, reputation, baseDir } = config();
  const store = memoryStore({ clock: steadyClock, keysMax: limits.keysMax });
  const observed = serveObserved(reputation, { baseDir, clock: systemClock, log });
  const bans = createBanDesk({ config, log, raise: observed.raise });
  const correlator = createEmbeddedCorrelator({ config, book: bans.book, log });
  return {
    store,
    bans,
    correlator,
    async start() {
      await observed.start();
      await bans.start();
      await correlator.follow();
    },
    async follow() {
      await bans.follow();
      await correlator.follow();
    },
    attach(channel) {
      serveStore(channel, store);
      correlator.attach(channel);
      const ends = [observed.attach(channel), bans.attach(channel)];
      return () => ends.forEach((end) => void end());
    },
    async close() {
      await correlator.close();
      await bans.close();
      await observed.close();
      await store.close();
    },
  };
}
