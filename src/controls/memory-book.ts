/**
 * The book of bans in one process: what a gate without Redis uses. Expiry is judged on read; the sweep only
 * gives memory back. Bounded: when full, the least severe give way, the oldest of them first.
 */
import { randomBytes } from 'node:crypto';
import type { Clock } from '../core/clock.js';
import { createPacer } from '../core/pacer.js';
import { subjectKey, type Ban, type Subject } from './ban.js';
import type { AuditEntry, BanAsk, BanBook, BanOutcome } from './ban-book-contract.js';
import { bounded, cut } from './ban-json.js';
import type { BanFeed, FeedChange } from './ban-feed-contract.js';
import type { Written } from './book-journal.js';
import type { Keepable } from './keep-book.js';
import { CLASSES, classOf, forgottenMs, judgeAsk, NO_ENTRY } from './judge-ask.js';
import type { BanRules, LedgerEntry } from './judge-ask.js';

export type BookRules = BanRules & Readonly<{ most: number; ledger: number; audit: number }>;

/** All that survives a restart. */
export type BookState = Readonly<{
  version: number;
  bans: readonly Ban[];
  /** Oldest first, with the time from which it is forgotten. */
  ledger: readonly (readonly [key: string, entry: LedgerEntry, forgetMs: number])[];
  /** Oldest first. */
  audit: readonly AuditEntry[];
}>;

export type BookStats = Readonly<{
  /** Bans that gave way to more severe ones. */
  gaveWay: number;
  /** Asks for which there was no room. */
  full: number;
  version: number;
  /** Subjects forgotten since the ledger was full. */
  forgotten: number;
}>;

/** `restore`: for the start, before anything is asked. */
export type MemoryBook = BanBook &
  BanFeed &
  Keepable &
  Readonly<{
    stats(): BookStats;
  }>;

export type MemoryBookDeps = Readonly<{ clock: Clock; rules: () => BookRules; newId?: () => string }>;

const SWEEP_MS = 1_000;

export const newBanId = (): string => randomBytes(9).toString('base64url');

export function createMemoryBook({ clock, rules, newId = newBanId }: MemoryBookDeps): MemoryBook {
  const shelf = createShelf();
  const ledger = createLedger();
  const audit: AuditEntry[] = [];
  const listeners = new Set<(change: FeedChange) => void>();
  const counts = { gaveWay: 0, full: 0 };
  let onWrite: (written: Written) => void = () => undefined;
  let version = 0;
  let sweptMs = -Infinity;

  const tell = (change: FeedChange): void => {
    version++;
    for (const listener of listeners) listener(change);
  };
  const write = (entry: AuditEntry): void => {
    audit.push(entry);
    onWrite({ audit: entry });
    const { audit: most } = rules();
    // Cut in bulk: an array moves as a whole.
    if (audit.length > most * 1.25) audit.splice(0, audit.length - most);
  };
  const sweep = (nowMs: number): void => {
    if (nowMs - sweptMs < SWEEP_MS) return;
    sweptMs = nowMs;
    for (const ban of shelf.all()) if (ban.untilMs <= nowMs) shelf.drop(subjectKey(ban.subject));
    ledger.sweep(nowMs);
  };
  /** Whether there is room for a ban of this class. */
  const makeRoom = (ofClass: number, nowMs: number): boolean => {
    if (shelf.size() < rules().most) return true;
    sweep(nowMs);
    if (shelf.size() < rules().most) return true;
    const victim = shelf.leastBelow(ofClass);
    if (victim === undefined) return false;
    shelf.drop(subjectKey(victim.subject));
    counts.gaveWay++;
    onWrite({ key: subjectKey(victim.subject) });
    tell({ kind: 'removed', subject: victim.subject });
    return true;
  };
  const held = (key: string, nowMs: number): Ban | undefined => {
    const ban = shelf.get(key);
    return ban !== undefined && ban.untilMs > nowMs ? ban : undefined;
  };
  const askOne = (ask: BanAsk): BanOutcome => {
    const nowMs = clock.nowMs();
    const key = subjectKey(ask.subject);
    const before = held(key, nowMs);
    const at = { nowMs, rules: rules() };
    const verdict = judgeAsk(ask, { held: before, entry: ledger.get(key, nowMs) }, at);
    const note = (untilMs: number): void => {
      const forgetMs = forgottenMs({ untilMs, nowMs, memory: at.rules.memory });
      ledger.put(key, verdict.entry, { forgetMs, most: at.rules.ledger });
      onWrite({ key });
    };
    if (!('untilMs' in verdict)) {
      note(nowMs);
      return { result: verdict.result, ban: before };
    }
    const { result, untilMs, strikes } = verdict;
    const ban = banOf(ask, { id: newId(), nowMs, untilMs, strikes });
    if (before === undefined && !makeRoom(classOf(ban), nowMs)) {
      counts.full++;
      return { result: 'full', ban: undefined };
    }
    note(untilMs);
    shelf.put(key, ban);
    write({ timeMs: nowMs, what: 'ban', subject: key, actor: ask.actor, reason: ask.reason, ban });
    tell({ kind: 'added', ban, live: true });
    return { result, ban };
  };
  const unban = (subject: Subject, { actor, reason }: Readonly<{ actor: string; reason: string }>) => {
    const nowMs = clock.nowMs();
    const key = subjectKey(subject);
    const ban = held(key, nowMs);
    const entry = { ...(ledger.get(key, nowMs) ?? NO_ENTRY), pardonMs: nowMs };
    const { memory, ledger: most } = rules();
    ledger.put(key, entry, { forgetMs: forgottenMs({ untilMs: nowMs, nowMs, memory }), most });
    shelf.drop(key);
    onWrite({ key });
    if (ban === undefined) return undefined;
    write({ timeMs: nowMs, what: 'unban', subject: key, actor, reason, ban });
    tell({ kind: 'removed', subject });
    return ban;
  };
  const inForce = (): Ban[] => {
    const nowMs = clock.nowMs();
    sweep(nowMs);
    return [...shelf.all()].filter(({ untilMs }) => untilMs > nowMs);
  };
  return {
    bans: inForce,
    skewMs: () => 0,
    listen(listener) {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
    read: async () => ({ version, bans: inForce() }),
    async ban(asks) {
      const outcomes: BanOutcome[] = [];
      const pause = createPacer();
      for (const ask of asks) {
        outcomes.push(askOne(ask));
        await pause();
      }
      return outcomes;
    },
    unban: async (subject, by) => unban(subject, by),
    note: async (entry) => write({ ...entry, timeMs: clock.nowMs() }),
    audit: async (count) => audit.slice(-Math.max(1, Math.min(count, rules().audit))).reverse(),
    close: async () => listeners.clear(),
    state: () => ({
      version,
      bans: inForce(),
      ledger: [...ledger.all()],
      audit: audit.slice(-rules().audit),
    }),
    restore(state) {
      const nowMs = clock.nowMs();
      version = state.version;
      for (const ban of state.bans) if (ban.untilMs > nowMs) shelf.put(subjectKey(ban.subject), ban);
      for (const [key, entry, forgetMs] of state.ledger)
        ledger.put(key, entry, { forgetMs, most: rules().ledger });
      audit.push(...state.audit.slice(-rules().audit));
    },
    of(key) {
      const [entry, forgetMs = 0] = ledger.row(key) ?? [];
      return { ban: shelf.get(key), entry, forgetMs };
    },
    onWrite: (work) => void (onWrite = work),
    stats: () => ({ ...counts, version, forgotten: ledger.forgotten() }),
  };
}

type Made = Readonly<{ id: string; nowMs: number; untilMs: number; strikes: number }>;

/** The ban that an ask leads to. */
export function banOf(ask: BanAsk, { id, nowMs, untilMs, strikes }: Made): Ban {
  const { subject, mode, evidence } = ask;
  const [reason, actor] = [cut(ask.reason), cut(ask.actor)];
  const ban = { id, subject, mode, reason, actor, sinceMs: nowMs, untilMs, strikes };
  return evidence === undefined ? ban : { ...ban, evidence: bounded(evidence) };
}

/** Bans by subject, and the order in which they give way. */
function createShelf() {
  const bans = new Map<string, Ban>();
  const order = Array.from({ length: CLASSES }, () => new Set<string>());
  const drop = (key: string): void => {
    const ban = bans.get(key);
    if (ban === undefined) return;
    order[classOf(ban)]!.delete(key);
    bans.delete(key);
  };
  return {
    size: () => bans.size,
    get: (key: string) => bans.get(key),
    all: () => bans.values(),
    drop,
    put(key: string, ban: Ban): void {
      drop(key);
      bans.set(key, ban);
      order[classOf(ban)]!.add(key);
    },
    leastBelow(ofClass: number): Ban | undefined {
      for (const keys of order.slice(0, ofClass)) for (const key of keys) return bans.get(key);
      return undefined;
    },
  };
}

/** What is remembered of subjects; the longest untouched come first. */
function createLedger() {
  const entries = new Map<string, readonly [entry: LedgerEntry, forgetMs: number]>();
  let forgotten = 0;
  return {
    forgotten: () => forgotten,
    row: (key: string) => entries.get(key),
    get(key: string, nowMs: number): LedgerEntry | undefined {
      const [entry, forgetMs] = entries.get(key) ?? [undefined, 0];
      return forgetMs > nowMs ? entry : undefined;
    },
    put(key: string, entry: LedgerEntry, keep: Readonly<{ forgetMs: number; most: number }>): void {
      entries.delete(key);
      entries.set(key, [entry, keep.forgetMs]);
      for (const oldest of entries.keys()) {
        if (entries.size <= keep.most) break;
        entries.delete(oldest);
        forgotten++;
      }
    },
    sweep(nowMs: number): void {
      for (const [key, [, forgetMs]] of entries) if (forgetMs <= nowMs) entries.delete(key);
    },
    *all(): Generator<readonly [string, LedgerEntry, number]> {
      for (const [key, [entry, forgetMs]] of entries) yield [key, entry, forgetMs];
    },
  };
}

