/**
 * Keeps one feed fresh: loads it, refuses implausible versions, keeps the last good one, and saves a copy of
 * it to start from while the source is down. The value in use is swapped whole, so a reader never sees half
 * of one.
 */
import { copyFile, mkdir, mkdtemp, rename, rm, stat } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Clock } from '../core/clock.js';
import { describeFault, Fault } from '../core/errors.js';
import { fetchFeed } from './fetch.js';
import { reason } from './lines.js';
import { refuseImplausible } from './plausible.js';
import type { FeedFile, FeedStatus, Log, Source, Version } from './source.js';
import { watchFile } from './watch.js';

export type FeedDeps = Readonly<{
  clock: Clock;
  log: Log;
  stateDir: string | undefined;
  pollMs: number;
  /** Runs after each swap. */
  changed(): void;
}>;

export type Feed<T> = {
  value(): T | undefined;
  status(): FeedStatus;
  /** Loads once, or falls back on the saved copy; never throws. Then follows changes. */
  start(): Promise<void>;
  close(): Promise<void>;
};

type Held<T> = {
  value: T | undefined;
  entries: number;
  loadedAtMs: number | undefined;
  problem: string | undefined;
};

export function createFeed<T>(source: Source<T>, deps: FeedDeps): Feed<T> {
  const held: Held<T> = { value: undefined, entries: 0, loadedAtMs: undefined, problem: undefined };
  const loader = createLoader(source, deps, held);
  const refresh = oneAtATime(loader.load);
  let stop: () => void = () => undefined;
  return {
    value: () => held.value,
    status: () => ({
      feed: source.feed,
      entries: held.entries,
      ageMs: held.loadedAtMs === undefined ? -1 : Math.max(0, deps.clock.nowMs() - held.loadedAtMs),
      ok: held.value !== undefined && held.problem === undefined,
      problem: held.problem,
    }),
    async start() {
      // Followed from before the first load, so that a change during it is not missed.
      stop = follow(source, deps.pollMs, () => void refresh.run());
      await refresh.run();
      if (held.value === undefined) await loader.loadSaved();
    },
    async close() {
      stop();
      await refresh.end();
    },
  };
}

/** Both loads write what they find into `held`, and neither throws. */
function createLoader<T>(source: Source<T>, deps: FeedDeps, held: Held<T>) {
  const from = originOf(source);
  const fields = { feed: source.feed, from };
  let since: string | undefined;

  const accept = (version: Version<T>, atMs: number): void => {
    if (held.value !== undefined) refuseImplausible(fields, held.entries, version);
    Object.assign(held, { value: version.value, entries: version.entries, loadedAtMs: atMs });
    if (version.warning !== undefined) deps.log('warn', `${source.feed}: ${version.warning}`, fields);
    deps.changed();
  };
  const report = (error: unknown): void => {
    const problem = reason(error);
    const code = error instanceof Fault ? error.code : undefined;
    // A source that stays down says the same each time: once is enough.
    if (problem !== held.problem) deps.log('warn', describeFault(error), { ...fields, code });
    held.problem = problem;
  };
  const load = async (): Promise<void> => {
    try {
      const where = { since, stateDir: deps.stateDir };
      const loaded = await loadOnce(source, where, (version) => accept(version, deps.clock.nowMs()));
      if (loaded.unchanged) held.loadedAtMs = deps.clock.nowMs();
      since = loaded.lastModified;
      if (held.problem !== undefined) deps.log('info', `${source.feed} is good again`, fields);
      held.problem = undefined;
    } catch (error) {
      report(error);
    }
  };
  const loadSaved = async (): Promise<void> => {
    try {
      if (deps.stateDir === undefined) throw new Error('no stateDir');
      const path = savedPath(deps.stateDir, source.feed);
      const { mtimeMs } = await stat(path);
      accept(await source.read({ feed: source.feed, path, from: path }), mtimeMs);
      deps.log('warn', `${source.feed}: started from the saved copy`, { feed: source.feed, from: path });
    } catch {
      deps.log('warn', `${source.feed}: no version at hand; it judges nobody until one loads`, fields);
    }
  };
  return { load, loadSaved };
}

/** A run asked for during a run follows it, once. */
function oneAtATime(work: () => Promise<void>) {
  let running: Promise<void> | undefined;
  let again = false;
  const run = (): Promise<void> => {
    if (running !== undefined) {
      again = true;
      return running;
    }
    running = work().finally(() => {
      running = undefined;
      if (!again) return;
      again = false;
      void run();
    });
    return running;
  };
  const end = async (): Promise<void> => {
    again = false;
    await running;
  };
  return { run, end };
}

function originOf<T>({ from }: Source<T>): string {
  return 'file' in from ? from.file : from.url;
}

function follow<T>(source: Source<T>, pollMs: number, refresh: () => void): () => void {
  if ('file' in source.from) return watchFile(source.from.file, pollMs, refresh);
  const timer = setInterval(refresh, source.from.refreshMs);
  timer.unref();
  return () => clearInterval(timer);
}

type Where = Readonly<{ since: string | undefined; stateDir: string | undefined }>;
type Loaded = Readonly<{ unchanged: boolean; lastModified: string | undefined }>;

type Accept<T> = (version: Version<T>) => void;

async function loadOnce<T>(source: Source<T>, where: Where, accept: Accept<T>): Promise<Loaded> {
  const { feed, from } = source;
  if ('file' in from) {
    accept(await source.read({ feed, path: from.file, from: from.file }));
    if (where.stateDir !== undefined) await save(where.stateDir, feed, from.file);
    return { unchanged: false, lastModified: undefined };
  }
  const folder = await mkdtemp(join(tmpdir(), 'tidegate-feed-'));
  try {
    const file: FeedFile = { feed, path: join(folder, feed), from: from.url };
    const fetched = await fetchFeed(file, { timeoutMs: from.timeoutMs, since: where.since });
    if (!fetched.changed) return { unchanged: true, lastModified: fetched.lastModified };
    accept(await source.read(file));
    if (where.stateDir !== undefined) await save(where.stateDir, feed, file.path);
    return { unchanged: false, lastModified: fetched.lastModified };
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

/** The copy appears whole or not at all; several workers may write it at once. */
async function save(stateDir: string, feed: string, path: string): Promise<void> {
  const target = savedPath(stateDir, feed);
  const draft = `${target}.${process.pid}.tmp`;
  try {
    await mkdir(stateDir, { recursive: true });
    await copyFile(path, draft);
    await rename(draft, target);
  } catch (error) {
    await rm(draft, { force: true });
    const why = `its copy cannot be saved: ${reason(error)}`;
    throw new Fault('FEED_UNREADABLE', { feed, from: path, why }, error);
  }
}

function savedPath(stateDir: string, feed: string): string {
  return join(stateDir, `${feed}.last`);
}
