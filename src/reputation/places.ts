/** Where addresses are, for the correlator alone: its own copy of the `geo` feed, if there is one. */
import { resolve } from 'node:path';
import type { PlaceOf } from '../core/place.js';
import type { ReputationConfig } from './config.js';
import { createFeed, type FeedDeps } from './feed.js';
import { geo } from './sources/geo.js';

export type Places = Readonly<{
  /** Never throws; reads the database, then follows its file. */
  start(): Promise<void>;
  /** Undefined for all until it was read, and without a database. */
  place: PlaceOf;
  close(): Promise<void>;
}>;

type Deps = Pick<FeedDeps, 'clock' | 'log'> & Readonly<{ baseDir: string }>;

export function createPlaces(config: ReputationConfig, { clock, log, baseDir }: Deps): Places {
  const feed =
    config.geo === undefined
      ? undefined
      : createFeed(geo(resolve(baseDir, config.geo.database)), {
          clock,
          log,
          // A database is large, and the correlator does without it for a while.
          stateDir: undefined,
          pollMs: config.poll,
          changed: () => undefined,
        });
  return {
    start: async () => feed?.start(),
    place: (ip) => feed?.value()?.(ip),
    close: async () => feed?.close(),
  };
}
