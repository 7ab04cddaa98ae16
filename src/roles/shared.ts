/** What all workers of a gate share, held by the supervisor: counters, observed scores, bans. */
import type { Config } from '../config/schema.js';
import type { Channel } from '../core/channel.js';
import { steadyClock, systemClock } from '../core/clock.js';
import { memoryStore, serveStore, type MemoryStore } from '../limits/index.js';
import { serveObserved } from '../reputation/serve-observed.js';
import { createBanDesk, type BanDesk } from './ban-desk.js';
import type { Log } from './engines.js';

export type Shared = Readonly<{
  store: MemoryStore;
  bans: BanDesk;
  /** Reads what was saved. Never throws: what is damaged is a warning. */
  start(): Promise<void>;
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
  return {
    store,
    bans,
    async start() {
      await observed.start();
      await bans.start();
    },
    attach(channel) {
      serveStore(channel, store);
      const ends = [observed.attach(channel), bans.attach(channel)];
      return () => ends.forEach((end) => void end());
    },
    async close() {
      await bans.close();
      await observed.close();
      await store.close();
    },
  };
}
