/**
 * Bans on their way from the supervisor to its workers: the whole list when a worker asks (it does so before
 * anything else), then each change. A worker whose line took no message gets the whole list again.
 */
import type { Channel } from '../core/channel.js';
import { SUBJECT_KINDS, type Ban, type Subject } from './ban.js';
import type { BanFeed } from './ban-feed-contract.js';
import { createBanSet, type BanRow, type BanSet } from './ban-set.js';

/** worker → supervisor: send me all. */
export const TOPIC_SYNC = 'bans.sync';
/** supervisor → worker: a slice of the whole list; in use from its last slice on. */
export const TOPIC_LIST = 'bans.list';
/** supervisor → worker: what changed. */
export const TOPIC_CHANGES = 'bans.changes';

const SLICE = 1_000;
const FLUSH_MS = 10;
const RETRY_MS = 500;

type Slice = Readonly<{ first: boolean; last: boolean; rows: readonly BanRow[] }>;
/** A row, or the kind and value of what is lifted. */
type Change = BanRow | readonly [kind: Subject['kind'], value: string];

export type BanServer = Readonly<{
  /** Serves one worker's line until the returned function is called. */
  attach(channel: Channel): () => void;
  close(): void;
}>;

export function serveBans(feed: BanFeed): BanServer {
  /** Each line, and whether it must get all anew. */
  const lines = new Map<Channel, { behind: boolean }>();
  let waiting: Change[] = [];
  let flushing: NodeJS.Timeout | undefined;
  const sendAll = (channel: Channel): boolean => {
    const rows = [...feed.bans()].map((ban) => rowOf(ban, feed.skewMs())).filter((row) => row !== undefined);
    for (let at = 0; at === 0 || at < rows.length; at += SLICE) {
      const end = at + SLICE;
      const slice: Slice = { first: at === 0, last: end >= rows.length, rows: rows.slice(at, end) };
      if (!channel.send(TOPIC_LIST, slice)) return false;
    }
    return true;
  };
  const flush = (): void => {
    flushing = undefined;
    const changes = waiting;
    waiting = [];
    for (const [channel, line] of lines) {
      if (line.behind) continue;
      for (let at = 0; at < changes.length; at += SLICE)
        if (!channel.send(TOPIC_CHANGES, changes.slice(at, at + SLICE))) line.behind = true;
    }
  };
  const unlisten = feed.listen((change) => {
    const { kind, value } = change.kind === 'added' ? change.ban.subject : change.subject;
    const row = change.kind === 'added' ? rowOf(change.ban, feed.skewMs()) : undefined;
    waiting.push(row ?? [kind, value]);
    flushing ??= setTimeout(flush, FLUSH_MS);
  });
  const retry = setInterval(() => {
    for (const [channel, line] of lines) if (line.behind) line.behind = !sendAll(channel);
  }, RETRY_MS).unref();
  return {
    attach(channel) {
      const line = { behind: false };
      lines.set(channel, line);
      channel.on(TOPIC_SYNC, () => {
        // What waits is in the list already, and may go out once more: each change says what holds now.
        line.behind = !sendAll(channel);
      });
      return () => lines.delete(channel);
    },
    close() {
      unlisten();
      clearTimeout(flushing);
      clearInterval(retry);
      lines.clear();
    },
  };
}

/** In the time of our own clock. */
function rowOf({ subject, mode, reason, untilMs }: Ban, skewMs: number): BanRow | undefined {
  return mode === 'watch' ? undefined : [subject.kind, subject.value, mode, reason, untilMs + skewMs];
}

/** The worker's side. Answers the set in use now; call it before the worker greets its supervisor. */
export function followBans(channel: Channel): () => BanSet {
  let current = createBanSet();
  let coming: BanSet | undefined;
  channel.on(TOPIC_LIST, (body) => {
    const { first, last, rows } = body as Slice;
    if (first) coming = createBanSet();
    if (coming === undefined) return;
    for (const row of rows) coming.put(row);
    if (!last) return;
    current = coming;
    coming = undefined;
  });
  channel.on(TOPIC_CHANGES, (body) => {
    for (const change of body as readonly Change[]) {
      const [kind, value] = change;
      if (!SUBJECT_KINDS.includes(kind)) continue;
      if (change.length === 2) current.remove({ kind, value });
      else current.put(change);
    }
  });
  channel.send(TOPIC_SYNC, null);
  return () => current;
}
