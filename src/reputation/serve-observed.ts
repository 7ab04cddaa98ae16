/**
 * The supervisor's side of observed scores: it holds the truth, adds up what workers raise, sends changes to
 * all of them in batches, and saves it. A worker's own copy may lack its latest raises for one batch; that is
 * the price of scores being exact in one place without a round trip in any request.
 */
import { resolve } from 'node:path';
import type { Channel } from '../core/channel.js';
import type { Clock } from '../core/clock.js';
import { describeFault } from '../core/errors.js';
import type { ReputationConfig } from './config.js';
import { reason } from './lines.js';
import { asObservedEntry, loadObserved, saveObserved } from './observed-state.js';
import { createObservedScores } from './observed.js';
import type { ObservedEntry, ObservedScores } from './observed.js';
import type { Log } from './source.js';

export const TOPIC_RAISE = 'reputation.raise';
export const TOPIC_SYNC = 'reputation.sync';
export const TOPIC_UPDATE = 'reputation.update';

const BATCH_MS = 250;
const BATCH_MAX = 2000;
const SAVE_MS = 60_000;

export type ServeObservedDeps = Readonly<{ baseDir: string; clock: Clock; log: Log }>;

export type ObservedServer = {
  /** Serves one worker's line until the returned function is called. */
  attach(channel: Channel): () => void;
  /** Reads the saved scores; a damaged file is a warning. Never throws. */
  start(): Promise<void>;
  /** As a worker's raise: `key` as in `ClientFacts`, points from 0 to 100. */
  raise(key: string, points: number): void;
  /** Saves once more. */
  close(): Promise<void>;
  scores: ObservedScores;
};

export function serveObserved(config: ReputationConfig, deps: ServeObservedDeps): ObservedServer {
  const scores = createObservedScores(config.observed);
  const path = statePath(config, deps.baseDir);
  const channels = new Set<Channel>();
  const dirty = new Map<string, ObservedEntry>();
  const timers: NodeJS.Timeout[] = [];
  let saving: Promise<void> = Promise.resolve();

  const flush = (): void => {
    if (dirty.size === 0) return;
    const entries = [...dirty.values()];
    dirty.clear();
    for (const channel of channels) sendAll(channel, entries);
  };
  const raised = (body: unknown): void => {
    // A raise is [key, points, time]: the same shape as an entry, points being at most 100.
    const entry = asObservedEntry(body);
    if (entry !== undefined) raise(entry[0], entry[1]);
  };
  const raise = (key: string, points: number): void => {
    dirty.set(key, scores.raise(key, points, deps.clock.nowMs()));
    if (dirty.size >= BATCH_MAX) flush();
  };
  const save = (): Promise<void> => {
    if (path === undefined) return Promise.resolve();
    saving = saving
      .then(() => saveObserved(path, scores.entries()))
      .catch((error: unknown) => {
        deps.log('warn', `observed scores cannot be saved: ${reason(error)}`, { file: path });
      });
    return saving;
  };
  const every = (ms: number, work: () => void): void => {
    timers.push(setInterval(work, ms).unref());
  };

  return {
    scores,
    raise,
    attach(channel) {
      channels.add(channel);
      channel.on(TOPIC_RAISE, raised);
      channel.on(TOPIC_SYNC, () => sendAll(channel, [...scores.entries()]));
      return () => channels.delete(channel);
    },
    async start() {
      if (path !== undefined) await restore(scores, { path, max: config.observed.max, log: deps.log });
      scores.sweep(deps.clock.nowMs());
      every(BATCH_MS, flush);
      every(config.observed.sweep, () => scores.sweep(deps.clock.nowMs()));
      if (path !== undefined) every(SAVE_MS, () => void save());
    },
    async close() {
      for (const timer of timers.splice(0)) clearInterval(timer);
      flush();
      scores.sweep(deps.clock.nowMs());
      await save();
    },
  };
}

function sendAll(channel: Channel, entries: readonly ObservedEntry[]): void {
  for (let at = 0; at < entries.length; at += BATCH_MAX) {
    channel.send(TOPIC_UPDATE, entries.slice(at, at + BATCH_MAX));
  }
}

type Saved = Readonly<{ path: string; max: number; log: Log }>;

async function restore(scores: ObservedScores, from: Saved): Promise<void> {
  try {
    for (const entry of await loadObserved(from.path, from.max)) scores.set(entry);
  } catch (error) {
    from.log('warn', describeFault(error), { file: from.path, code: 'STATE_UNREADABLE' });
  }
}

function statePath({ observed, stateDir }: ReputationConfig, baseDir: string): string | undefined {
  if (observed.stateFile !== undefined) return resolve(baseDir, observed.stateFile);
  return stateDir === undefined ? undefined : resolve(baseDir, stateDir, 'observed.jsonl');
}
