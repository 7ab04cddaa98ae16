/**
 * What supervisor and workers tell each other, by topic. Counters and observed scores have topics of their
 * own.
 */
import type { DecisionEvent } from '../core/event.js';

export const TOPICS = {
  /** worker → supervisor: it listens to the line now; anything sent before is lost while its modules load. */
  hello: 'cluster.hello',
  /** supervisor → worker: the first or a new config. */
  snapshot: 'cluster.snapshot',
  /** worker → supervisor: listens, and where. */
  ready: 'cluster.ready',
  /** worker → supervisor: the new config is in force, or why not. */
  swapped: 'cluster.swapped',
  /** supervisor → worker: finish what is under way, then end. */
  drain: 'cluster.drain',
  /** worker → supervisor: where it counts, and whether that works. */
  limitStore: 'cluster.limit-store',
  askMetrics: 'cluster.metrics.ask',
  metrics: 'cluster.metrics',
  /** worker → supervisor: the latest decisions that did not simply pass. */
  notable: 'cluster.notable',
  /** worker → supervisor: it cannot run at all. */
  failed: 'cluster.failed',
  /** supervisor → worker and back: its event loop turns. */
  ping: 'cluster.ping',
  pong: 'cluster.pong',
  /** worker → supervisor, with each answer to askMetrics: how its feeds stand. */
  feeds: 'cluster.feeds',
} as const;

/** `version`: of the config it opened with; a newer one may have been handed out meanwhile. */
export type Ready = { listen: string[]; rules: number; version: number };
export type Swapped = { version: number; problem?: string };
/** `why`: the code of the fault that led to it; absent where the store answers. */
export type LimitStoreHealth = Readonly<{
  store: 'embedded' | 'redis';
  state: 'ok' | 'degraded';
  why?: string;
}>;
export type Failed = { problem: string };
/**
 * `node`: names this gate among those that share its limits; `place`: the worker's among its own.
 * `credentials`: certificate and key for each listener in turn, as the supervisor read them, so that a worker
 * which replaces another does not depend on what lies on the disk by then.
 */
export type SnapshotMessage<Config> = {
  version: number;
  config: Config;
  hashKey: string;
  workers: number;
  node: string;
  place: number;
  credentials: readonly (Readonly<{ cert: string; key: string }> | null)[];
};
export type Notables = readonly DecisionEvent[];
