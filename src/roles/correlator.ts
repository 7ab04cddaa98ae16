/** The correlator built from the config: the same for the supervisor and for a process of its own. */
import type { ConsumerStats } from '../bus/bus-contract.js';
import type { Config } from '../config/schema.js';
import type { BanBook } from '../controls/ban-book-contract.js';
import { systemClock } from '../core/clock.js';
import { createCrawlers, createNames, type Crawlers } from '../correlator/crawlers.js';
import { createDetectors } from '../correlator/detectors/index.js';
import { createEngine, type Engine, type EngineDeps, type EngineStats } from '../correlator/engine.js';
import { createRecent } from '../correlator/recent.js';
import { createScreen } from '../correlator/screen.js';
import { createPlaces } from '../reputation/places.js';
import { createUntouchable } from '../reputation/untouchable.js';
import type { Log } from './engines.js';

export type CorrelatorView = Readonly<{
  engine: EngineStats;
  consumer: ConsumerStats;
  /** Observations lost on the way, before and on the bus in memory. */
  busDropped: number;
}>;

export type BuiltCorrelator = Readonly<{
  engine: Engine;
  /** Reads the allowlist, and evaluates from then on. */
  start(): Promise<void>;
  close(): Promise<void>;
}>;

export type CorrelatorDeps = Readonly<{ book: Pick<BanBook, 'ban' | 'note'>; log: Log }> &
  Pick<EngineDeps, 'states' | 'isLeading' | 'from'> &
  Readonly<{ clock?: EngineDeps['clock'] }>;

export function buildCorrelator(config: Config, deps: CorrelatorDeps): BuiltCorrelator {
  const { clock = systemClock, log } = deps;
  const { reputation, correlator, baseDir } = config;
  const untouchable = createUntouchable(reputation, { baseDir, clock: systemClock, log });
  const { isAllowed, isOwn } = untouchable;
  const places = createPlaces(reputation, { baseDir, clock: systemClock, log });
  const engine = createEngine({
    ...deps,
    clock,
    config: correlator,
    listed: createDetectors(correlator.detectors, places),
    screen: createScreen({ isAllowed, isOwn, widest: reputation.widest, crawlers: crawlersOf(config, log) }),
  });
  return {
    engine,
    async start() {
      await Promise.all([untouchable.start(), places.start()]);
      engine.start();
    },
    async close() {
      await engine.close();
      await Promise.all([untouchable.close(), places.close()]);
    },
  };
}

const TOLD_EVERY_MS = 600_000;
const TOLD_MAX = 1_000;

function crawlersOf({ correlator, dns }: Config, log: Log): Crawlers {
  const told = createRecent(TOLD_EVERY_MS, TOLD_MAX);
  return createCrawlers(correlator.crawlers, {
    names: createNames(dns.servers),
    clock: systemClock,
    onUnknown(ip, claim) {
      if (!told.isDue(ip, systemClock.nowMs())) return;
      log('warn', `correlator: ${ip} claims to be ${claim} and is not banned: DNS cannot tell now`, { ip });
    },
  });
}
