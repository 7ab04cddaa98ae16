/**
 * The list of bans as a gate follows it, whether the book is in its own memory or in Redis. The contract, not
 * the work.
 */
import type { Ban, Subject } from './ban.js';

/** `live`: made while we followed, not found in the list at the start. `ban` replaces one of its subject. */
export type FeedChange =
  | Readonly<{ kind: 'added'; ban: Ban; live: boolean }>
  | Readonly<{ kind: 'removed'; subject: Subject }>;

export type BanFeed = Readonly<{
  /** Those in force as far as is known; some may have just expired. */
  bans(): Iterable<Ban>;
  /** How far our clock is ahead of the one that bans end by. */
  skewMs(): number;
  /** Tells each change once. The returned function ends it. */
  listen(listener: (change: FeedChange) => void): () => void;
}>;
