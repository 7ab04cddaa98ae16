/** Where a gate's bans are: a book in the supervisor with a file, or the one in Redis, followed. */
import { createHash } from 'node:crypto';
import { hostname } from 'node:os';
import { resolve } from 'node:path';
import type { Config } from '../config/schema.js';
import type { BanBook } from '../controls/ban-book-contract.js';
import type { BanFeed } from '../controls/ban-feed-contract.js';
import { BAN_CHANNEL } from '../controls/ban-script.js';
import { followBook, type FollowStats } from '../controls/follow.js';
import { keepBook } from '../controls/keep-book.js';
import { createMemoryBook } from '../controls/memory-book.js';
import { openRedisBook } from '../controls/open-redis-book.js';
import { systemClock } from '../core/clock.js';
import { redisSettings } from '../redis/settings.js';
import type { Log } from './engines.js';

export type SourceStats = FollowStats & Readonly<{ gaveWay: number; full: number; forgotten: number }>;

export type BanSource = Readonly<{
  book: BanBook;
  feed: BanFeed;
  /** What operators lifted, and when. */
  lifted(): ReadonlyMap<string, number>;
  stats(): SourceStats;
  /** Resolves when the bans are known, or after a moment. Never rejects. */
  start(): Promise<void>;
  /** Leaves the file to the next one. */
  release(): Promise<void>;
  close(): Promise<void>;
}>;

export type SourceDeps = Readonly<{ config: () => Config; log: Log; before: BanSource | undefined }>;

/** A gate starts without its bans rather than not at all. */
const FIRST_LOOK_MS = 2_000;

/** Changes with whatever a source is opened from. */
export function sourceText({ redis, baseDir }: Config): string {
  if (redis === undefined) return 'memory';
  const files = redisSettings(redis, { baseDir }).options.tls;
  const digest = createHash('sha256').update(JSON.stringify(files ?? null)).digest('hex');
  return JSON.stringify([redis, digest]);
}

/** Throws Fault REDIS_SETTINGS. */
export function openSource(deps: SourceDeps): Promise<BanSource> | BanSource {
  return deps.config().redis === undefined ? memorySource(deps) : redisSource(deps);
}

function memorySource({ config, log, before }: SourceDeps): BanSource {
  const book = createMemoryBook({ clock: systemClock, rules: () => config().bans });
  if (before !== undefined)
    book.restore({ version: 0, bans: [...before.feed.bans()], ledger: [], audit: [] });
  const path = statePath(config());
  const kept = path === undefined ? undefined : keepBook(book, path, log);
  return {
    book,
    feed: book,
    lifted: () => new Map(),
    stats: () => ({ ...NOT_FOLLOWED, ...book.stats() }),
    async start() {
      if (before !== undefined) return;
      if (kept === undefined)
        log('info', 'bans are kept in memory only: bans.stateFile or reputation.stateDir would keep them');
      await kept?.load();
    },
    release: async () => kept?.close(),
    async close() {
      await kept?.close();
      await book.close();
    },
  };
}

const NOT_FOLLOWED: FollowStats = { version: 0, ageMs: 0, failures: 0, missed: 0, restored: 0 };

function statePath({ bans, reputation: { stateDir }, baseDir }: Config): string | undefined {
  if (bans.stateFile !== undefined) return resolve(baseDir, bans.stateFile);
  return stateDir === undefined ? undefined : resolve(baseDir, stateDir, 'bans.jsonl');
}

async function redisSource({ config, log, before }: SourceDeps): Promise<BanSource> {
  const { redis, baseDir } = config();
  const { book, settings, settled } = await openRedisBook(redis!, { baseDir, rules: () => config().bans });
  const { subscribeRedis } = await import('../redis/subscriber.js');
  const follower = followBook({
    book,
    subscribe: (onMessage) => subscribeRedis(settings, `${redis!.keyPrefix}${BAN_CHANNEL}`, onMessage),
    clock: systemClock,
    log,
    pollMs: () => config().bans.poll,
    actor: `gate:${hostname()}`,
  });
  if (before !== undefined) follower.carryOn(before.feed.bans(), before.lifted());
  const path = statePath(config());
  // So that a gate which starts while Redis is away has its bans.
  const kept = path === undefined ? undefined : keepBook(follower, path, log);
  return {
    book,
    feed: follower,
    lifted: () => follower.lifted(),
    stats: () => ({ ...follower.stats(), ...book.stats(), forgotten: 0 }),
    async start() {
      if (before === undefined) await kept?.load();
      let timer: NodeJS.Timeout | undefined;
      const late = new Promise<void>((resolve) => (timer = setTimeout(resolve, FIRST_LOOK_MS)));
      await Promise.race([settled(FIRST_LOOK_MS).then(() => follower.start()), late]);
      clearTimeout(timer);
    },
    release: async () => kept?.close(),
    async close() {
      await kept?.close();
      follower.close();
      await book.close();
    },
  };
}
