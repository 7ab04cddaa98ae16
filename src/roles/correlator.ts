/** The correlator built from the config: the same for the supervisor and for a process of its own. */
import type { Config } from '../config/schema.js';
import type { BanBook } from '../controls/ban-book-contract.js';
import { systemClock } from '../core/clock.js';
import { createDetectors } from '../correlator/detectors/index.js';
import { createEngine, type Engine, type EngineDeps } from '../correlator/engine.js';
import { createScreen } from '../correlator/screen.js';
import { createUntouchable } from '../reputation/untouchable.js';
import type { Log } from './engines.js';

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
  const engine = createEngine({
    ...deps,
    clock,
    config: correlator,
    listed: createDetectors(correlator.detectors),
    screen: createScreen({ isAllowed, isOwn, widest: reputation.widest }),
  });
  return {
    engine,
    async start() {
      await untouchable.start();
      engine.start();
    },
    async close() {
      await engine.close();
      await untouchable.close();
    },
  };
}
