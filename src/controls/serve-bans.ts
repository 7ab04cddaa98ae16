/**
 * Bans on their way from the supervisor to its workers: the whole list when a worker asks (it does so before
 * anything else), then each change. A worker whose line took no message gets the whole list again.
 */
import { setImmediate as pause } from 'node:timers/promises';
import type { Channel } from '../core/channel.js';
import type { Clock } from '../core/clock.js';
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
const SWEEP_MS = 30_000;
const KNOWN_MS = 2_000;

type Slice = Readonly<{ first: boolean; last: boolean; rows: readonly BanRow[] }>;
/** A row, or the kind and value of what is lifted. */
type Change = BanRow | readonly [kind: Subject['kind'], value: string];

/** `behind`: it must get all anew. `after`: changes that go out once the list has. */
type Line = { behind: boolean; after: Change[] | undefined; gone: boolean };

export type BanServer = Readonly<{
  /** Serves one worker's line until the returned function is called. */
  attach(channel: Channel): () => void;
  close(): void;
}>;

export function serveBans(feed: BanFeed): BanServer {
  const lines = new Map<Channel, Line>();
  let waiting: Change[] = [];
  let flushing: NodeJS.Timeout | undefined;
  const sendChanges = (channel: Channel, line: Line, changes: readonly Change[]): void => {
    for (let at = 0; at < changes.length; at += SLICE)
      if (!channel.send(TOPIC_CHANGES, changes.slice(at, at + SLICE))) line.behind = true;
  };
  /** In slices with a pause after each: the supervisor counts limits meanwhile. */
  const sendAll = async (channel: Channel, line: Line): Promise<void> => {
    if (line.after !== undefined) return;
    line.after = [];
    line.behind = false;
    const rows = [...feed.bans()].map((ban) => rowOf(ban, feed.skewMs())).filter((row) => row !== undefined);
    for (let at = 0; (at === 0 || at < rows.length) && !line.behind && !line.gone; at += SLICE) {
      if (at > 0) await pause();
      const end = at + SLICE;
      const slice: Slice = { first: at === 0, last: end >= rows.length, rows: rows.slice(at, end) };
      line.behind = !channel.send(TOPIC_LIST, slice);
    }
    const changes = line.after;
    line.after = undefined;
    sendChanges(channel, line, changes);
  };
  const flush = (): void => {
    flushing = undefined;
    const changes = waiting;
    waiting = [];
    for (const [channel, line] of lines) {
      if (line.after !== undefined) line.after.push(...changes);
      else if (!line.behind) sendChanges(channel, line, changes);
    }
  };
  const unlisten = feed.listen((change) => {
    const { kind, value } = change.kind === 'added' ? change.ban.subject : change.subject;
    const row = change.kind === 'added' ? rowOf(change.ban, feed.skewMs()) : undefined;
    waiting.push(row ?? [kind, value]);
    flushing ??= setTimeout(flush, FLUSH_MS);
  });
  const retry = setInterval(() => {
    for (const [channel, line] of lines) if (line.behind) void sendAll(channel, line);
  }, RETRY_MS).unref();
  return {
    attach(channel) {
      const line: Line = { behind: false, after: undefined, gone: false };
      lines.set(channel, line);
      channel.on(TOPIC_SYNC, () => void sendAll(channel, line));
      return () => {
        line.gone = true;
        lines.delete(channel);
      };
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

export type FollowedBans = Readonly<{
  /** The set in use now. */
  set: () => BanSet;
  /** Resolves with the first whole list, or after a moment: a silent supervisor holds nobody up. */
  known: Promise<void>;
}>;

/** The worker's side. */
export function followBans(channel: Channel, clock: Clock): FollowedBans {
  let current = createBanSet();
  let coming: BanSet | undefined;
  let arrived = (): void => undefined;
  const known = new Promise<void>((resolve) => {
    arrived = resolve;
    setTimeout(resolve, KNOWN_MS).unref();
  });
  channel.on(TOPIC_LIST, (body) => {
    const { first, last, rows } = body as Slice;
    if (first) coming = createBanSet();
    if (coming === undefined) return;
    for (const row of rows) coming.put(row);
    if (!last) return;
    current = coming;
    coming = undefined;
    arrived();
  });
  channel.on(TOPIC_CHANGES, (body) => {
    for (const change of body as readonly Change[]) {
      const [kind, value] = change;
      if (!SUBJECT_KINDS.includes(kind)) continue;
      if (change.length === 2) current.remove({ kind, value });
      else current.put(change);
    }
  });
  setInterval(() => current.sweep(clock.nowMs()), SWEEP_MS).unref();
  channel.send(TOPIC_SYNC, null);
  return { set: () => current, known };
}
