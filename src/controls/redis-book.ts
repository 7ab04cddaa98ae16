/**
 * The book of bans in Redis, shared by all gates and the correlator: one script, atomic for each ask, on keys
 * of one slot. Redis' clock decides times. What each key holds says lua/bans.lua.
 */
import { Fault } from '../core/errors.js';
import type { ScriptCall, ScriptReply } from '../redis/executor.js';
import type { RedisClient } from '../redis/client.js';
import { subjectKey, type Ban } from './ban.js';
import type { BanAsk, BanBook, BanOutcome, BanResult } from './ban-book-contract.js';
import { asAuditEntry, auditHead, banParts, cut, parseBan } from './ban-json.js';
import { BAN_CHANNEL, BAN_KEYS, type BanOperation } from './ban-script.js';
import { RANKS } from './judge-ask.js';
import { newBanId, type BookRules } from './memory-book.js';

/** How the book stands; `epoch` changes where its keys were lost, `version` goes up by one with each change. */
export type BookMark = Readonly<{ nowMs: number; epoch: string; version: number; ledgerEpoch: string }>;

export type PutBack = 'restored' | 'held' | 'lifted' | 'ended' | 'full';

export type RedisBook = BanBook &
  Readonly<{
    /** Cheap, for polling. Rejects with a Fault. */
    mark(): Promise<BookMark>;
    /**
     * All in force, with the mark from before: later changes may be in it, so that whoever goes on from the
     * mark takes some twice. Rejects with a Fault.
     */
    readAll(): Promise<BookMark & Readonly<{ bans: readonly Ban[] }>>;
    /** Bans that the book has lost, as it seems; one answer each. Rejects with a Fault. */
    putBack(bans: readonly Ban[], actor: string): Promise<readonly PutBack[]>;
    /** Tells again what was lifted and when; how many put-back bans went with it. Rejects with a Fault. */
    lift(lifted: ReadonlyMap<string, number>): Promise<number>;
    /** Removes some that are over; how many entries went. Rejects with a Fault. */
    sweep(): Promise<number>;
    stats(): Readonly<{ gaveWay: number; full: number }>;
  }>;

export type RedisBookDeps = Readonly<{
  /** Opened with `loadBanScript()`. Closed by whoever opened it. */
  client: Pick<RedisClient, 'evalBatch'>;
  keyPrefix: string;
  rules: () => BookRules;
  /** For tests: a clock instead of Redis'. */
  nowMs?: () => number;
}>;

/** Asks in one pipeline: other users of this Redis get their turn in between. */
const BATCH = 250;
const PAGE = 500;

type Args = ScriptCall['args'];

export function createRedisBook(deps: RedisBookDeps): RedisBook {
  const counts = { gaveWay: 0, full: 0 };
  const { run, runAll } = runner(deps);
  const askArgs = (ask: BanAsk): Args => {
    const { base, factor, max } = deps.rules();
    const { firstSeenMs, lastSeenMs } = ask.evidence ?? { firstSeenMs: 0, lastSeenMs: 0 };
    const subject = subjectKey(ask.subject);
    const [head, tail] = banParts(ask, newBanId());
    const timing = [ask.durationMs ?? 0, Math.floor(firstSeenMs), Math.floor(lastSeenMs), base, factor, max];
    const entry = auditHead({ what: 'ban', subject, actor: ask.actor, reason: ask.reason });
    return [subject, RANKS[ask.mode], ...timing, head, tail, entry];
  };
  const outcomeOf = ([result, ban, gaveWay]: readonly unknown[]): BanOutcome => {
    if (gaveWay !== '') counts.gaveWay++;
    if (result === 'full') counts.full++;
    return { result: result as BanResult, ban: parseBan(ban) };
  };
  /** In pages: one reply with all bans would hold Redis up, and the line with it. */
  const readAll: RedisBook['readAll'] = async () => {
    const bans = new Map<string, Ban>();
    let first: BookMark | undefined;
    let cursor = '0';
    do {
      const [now, epoch, version, ledgerEpoch, next, ...texts] = await run('read', [cursor, PAGE]);
      const mark = markOf([now, epoch, version, ledgerEpoch]);
      first ??= mark;
      if (mark.epoch !== first.epoch) throw new Fault('STORE_FAILED', { why: 'its bans were lost meanwhile' });
      for (const ban of texts.map(parseBan))
        if (ban !== undefined && ban.untilMs > mark.nowMs) bans.set(subjectKey(ban.subject), ban);
      cursor = String(next);
    } while (cursor !== '0');
    return { ...first, bans: [...bans.values()] };
  };
  return {
    mark: async () => markOf(await run('read', ['', 0])),
    readAll,
    read: async () => {
      const { version, bans } = await readAll();
      return { version, bans };
    },
    ban: async (asks) => (await runAll('ban', asks.map(askArgs))).map(outcomeOf),
    async unban(subject, { actor, reason }) {
      const key = subjectKey(subject);
      const [ban] = await run('unban', [key, auditHead({ what: 'unban', subject: key, actor, reason })]);
      return parseBan(ban);
    },
    async note({ ban, ...entry }) {
      await run('note', [auditHead(entry), ...(ban === undefined ? [] : [JSON.stringify(ban)])]);
    },
    async audit(count) {
      const most = Math.max(1, Math.min(count, deps.rules().audit));
      const rows = (await run('audit', [most])) as readonly (readonly [string, readonly string[]])[];
      return rows.map(([, [, text]]) => asAuditEntry(text)).filter((entry) => entry !== undefined);
    },
    async putBack(bans, actor) {
      const replies = await runAll(
        'putBack',
        bans.map((ban) => putBackArgs(ban, actor)),
      );
      return replies.map(([result]) => result as PutBack);
    },
    async lift(lifted) {
      const replies = await runAll('lift', [...lifted]);
      return replies.filter(([gone]) => gone === 1).length;
    },
    sweep: async () => Number((await run('sweep', []))[0]),
    stats: () => ({ ...counts }),
    close: async () => undefined,
  };
}

function putBackArgs(ban: Ban, actor: string): Args {
  const subject = subjectKey(ban.subject);
  const { sinceMs, untilMs, strikes } = ban;
  const reason = cut(`lost in Redis; ${ban.reason}`);
  const head = auditHead({ what: 'restore', subject, actor, reason });
  const seenMs = Math.floor(ban.evidence?.lastSeenMs ?? 0);
  return [subject, JSON.stringify(ban), RANKS[ban.mode], sinceMs, untilMs, strikes, seenMs, head];
}

function markOf([now, epoch, version, ledgerEpoch]: readonly unknown[]): BookMark {
  return {
    nowMs: Number(now),
    epoch: String(epoch),
    version: Number(version),
    ledgerEpoch: String(ledgerEpoch),
  };
}

function runner({ client, keyPrefix, rules, nowMs = () => 0 }: RedisBookDeps) {
  const callOf = (operation: BanOperation, args: Args): ScriptCall => {
    const { most, ledger, audit, memory } = rules();
    const channel = `${keyPrefix}${BAN_CHANNEL}`;
    const common = [operation, nowMs(), newBanId(), channel, most, ledger, audit, memory];
    return { keys: BAN_KEYS, args: [...common, ...args] };
  };
  const runAll = async (operation: BanOperation, all: readonly Args[]) => {
    const replies: (readonly unknown[])[] = [];
    for (let at = 0; at < all.length; at += BATCH) {
      const calls = all.slice(at, at + BATCH).map((args) => callOf(operation, args));
      replies.push(...(await client.evalBatch(calls)).map(orThrow));
    }
    return replies;
  };
  return {
    runAll,
    run: async (operation: BanOperation, args: Args) => (await runAll(operation, [args]))[0] ?? [],
  };
}

function orThrow(reply: ScriptReply): readonly unknown[] {
  if (reply instanceof Fault) throw reply;
  return reply;
}

