/**
 * The supervisor's bans in one place: the book, its way to the workers, and what a newly banned address earns
 * in observed score. Stays the same over reloads, whatever the book behind it is.
 */
import type { Config } from '../config/schema.js';
import { BAN_MODES, type Ban, type BanMode } from '../controls/ban.js';
import type { BanBook } from '../controls/ban-book-contract.js';
import type { BanFeed, FeedChange } from '../controls/ban-feed-contract.js';
import { serveBans } from '../controls/serve-bans.js';
import { parseNetwork } from '../core/address.js';
import type { Channel } from '../core/channel.js';
import { systemClock } from '../core/clock.js';
import { zeros } from '../core/counts.js';
import { describeFault, Fault } from '../core/errors.js';
import { openSource, sourceText, type BanSource, type SourceStats } from './ban-source.js';
import type { Log } from './engines.js';

export type BanDesk = Readonly<{
  book: BanBook;
  /** Serves one worker's line until the returned function is called. */
  attach(channel: Channel): () => void;
  /** Never throws: what cannot be read is a warning. */
  start(): Promise<void>;
  /** Opens another book where the config now names one; bans in force go along. Never rejects. */
  follow(): Promise<void>;
  /** What this gate obeys now. */
  inForce(): readonly Ban[];
  /** Bans in force, by mode. */
  active(): Readonly<Record<BanMode, number>>;
  /** Undefined before the start. */
  stats(): SourceStats | undefined;
  close(): Promise<void>;
}>;

export type BanDeskDeps = Readonly<{
  config: () => Config;
  log: Log;
  /** Raises the observed score of a source; `key` as in `ClientFacts`. */
  raise: (key: string, points: number) => void;
}>;

export function createBanDesk({ config, log, raise }: BanDeskDeps): BanDesk {
  const listeners = new Set<(change: FeedChange) => void>();
  let source: BanSource | undefined;
  let text = '';
  const feed: BanFeed = {
    bans: () => source?.feed.bans() ?? [],
    skewMs: () => source?.feed.skewMs() ?? 0,
    listen(listener) {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
  };
  const server = serveBans(feed);
  feed.listen((change) => feedBack(change, config(), raise));
  const open = async (): Promise<void> => {
    const before = source;
    await before?.release();
    const next = await openSource({ config, log, before });
    next.feed.listen((change) => {
      if (source === next) for (const listener of listeners) listener(change);
    });
    source = next;
    text = sourceText(config());
    await next.start();
    await before?.close();
  };
  return {
    book: createFrontBook(() => source?.book),
    attach: server.attach,
    start: open,
    async follow() {
      if (source === undefined || sourceText(config()) === text) return;
      await open().catch((error: unknown) => log('error', `bans: ${describeFault(error)}`));
    },
    inForce: () => inForce(feed),
    active: () => countByMode(feed),
    stats: () => source?.stats(),
    async close() {
      server.close();
      await source?.close();
    },
  };
}

/** Asks whatever book is in use now. */
function createFrontBook(current: () => BanBook | undefined): BanBook {
  const now = async (): Promise<BanBook> => {
    const book = current();
    if (book === undefined) throw new Fault('STORE_CLOSED');
    return book;
  };
  return {
    read: async () => (await now()).read(),
    ban: async (asks) => (await now()).ban(asks),
    unban: async (subject, by) => (await now()).unban(subject, by),
    note: async (entry) => (await now()).note(entry),
    audit: async (count) => (await now()).audit(count),
    close: async () => undefined,
  };
}

function countByMode(feed: BanFeed): Record<BanMode, number> {
  const counts = zeros(BAN_MODES);
  for (const { mode } of inForce(feed)) counts[mode]++;
  return counts;
}

function inForce(feed: BanFeed): readonly Ban[] {
  const now = systemClock.nowMs() - feed.skewMs();
  return [...feed.bans()].filter(({ untilMs }) => untilMs > now);
}

/** Our own refusals raise nothing: only the finding itself does, once, on each gate that learns of it. */
function feedBack(change: FeedChange, { bans, ipv6Prefix }: Config, raise: BanDeskDeps['raise']): void {
  if (change.kind !== 'added' || !change.live || change.ban.subject.kind !== 'network') return;
  const { mode, subject } = change.ban;
  if (mode === 'observe') return;
  const key = keyOf(subject.value, ipv6Prefix);
  if (key !== undefined) raise(key, mode === 'watch' ? bans.feedback.watch : bans.feedback.ban);
}

/** The key under which a network's clients are scored; undefined where it holds more than one key. */
function keyOf(value: string, ipv6Prefix: number): string | undefined {
  const network = parseNetwork(value);
  if (network?.family === 4) return network.prefix === 32 ? value : undefined;
  if (network?.prefix !== ipv6Prefix) return undefined;
  return value.includes('/') ? value : `${value}/${ipv6Prefix}`;
}
