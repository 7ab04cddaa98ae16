/** The shape of a feed's source, and the words feeds share. */

export type FeedName = 'allowlist' | 'blocklist' | 'tor' | 'asn' | 'geo';

type Level = 'info' | 'warn' | 'error';
export type Log = (level: Level, message: string, fields?: Record<string, unknown>) => void;

/** One version of a feed, read whole and found good. */
export type Version<T> = Readonly<{
  value: T;
  entries: number;
  /** One sentence on lines left out, where there were any. */
  warning?: string;
  /** There was not even a comment in the file. */
  isBlank?: boolean;
}>;

/** A local file to read, and where it came from in words for messages (the same path, or a URL). */
export type FeedFile = Readonly<{
  feed: FeedName;
  path: string;
  from: string;
  /** An empty file is no error. */
  mayBeBlank?: true;
}>;

/**
 * Reads one version from a local file; throws a Fault (FEED_*) where it cannot be used. Never blocks for over
 * 20 ms.
 */
export type Source<T> = Readonly<{
  feed: FeedName;
  from: Readonly<{ file: string }> | Readonly<{ url: string; refreshMs: number; timeoutMs: number }>;
  read(file: FeedFile): Promise<Version<T>>;
}>;

/**
 * How a feed stands, for readiness, metrics and the admin page. `ageMs` counts from the last good load; -1
 * before it.
 */
export type FeedStatus = Readonly<{
  feed: FeedName;
  entries: number;
  ageMs: number;
  ok: boolean;
  problem: string | undefined;
}>;

export const FEED_BYTES_MAX = 32 * 1024 * 1024;
