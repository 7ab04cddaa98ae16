/**
 * The supervisor's bans in one place: the book, its way to the workers, and what a newly banned address earns
 * in observed score.
 */
import type { Config } from '../config/schema.js';
import type { BanBook } from '../controls/ban-book-contract.js';
import type { FeedChange } from '../controls/ban-feed-contract.js';
import { createMemoryBook, type MemoryBook } from '../controls/memory-book.js';
import { serveBans } from '../controls/serve-bans.js';
import { parseNetwork } from '../core/address.js';
import type { Channel } from '../core/channel.js';
import { systemClock } from '../core/clock.js';
import type { Log } from './engines.js';

export type BanDesk = Readonly<{
  book: BanBook;
  /** Serves one worker's line until the returned function is called. */
  attach(channel: Channel): () => void;
  /** Never throws: what cannot be read is a warning. */
  start(): Promise<void>;
  close(): Promise<void>;
}>;

export type BanDeskDeps = Readonly<{
  config: () => Config;
  log: Log;
  /** Raises the observed score of a source; `key` as in `ClientFacts`. */
  raise: (key: string, points: number) => void;
}>;

export function createBanDesk({ config, raise }: BanDeskDeps): BanDesk {
  const book: MemoryBook = createMemoryBook({ clock: systemClock, rules: () => config().bans });
  const server = serveBans(book);
  book.listen((change) => feedBack(change, config(), raise));
  return {
    book,
    attach: server.attach,
    start: async () => undefined,
    async close() {
      server.close();
      await book.close();
    },
  };
}

/** Our own refusals raise nothing: only the finding itself does, once, where it was made. */
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
