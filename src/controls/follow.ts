/**
 * Follows the book in Redis: by its messages, which may be lost, and by looking at its version, which heals
 * that. A read that fails changes nothing. Bans that the book has lost (flushed, evicted, restored from an
 * older copy) stay in force here and are put back, unless the book or we know that an operator lifted them.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import type { Clock } from '../core/clock.js';
import { describeFault } from '../core/errors.js';
import { subjectKey, subjectOf, type Ban } from './ban.js';
import type { BanFeed, FeedChange } from './ban-feed-contract.js';
import { asBan, parsed } from './ban-json.js';
import { NO_ENTRY } from './judge-ask.js';
import type { Holding, Written } from './book-journal.js';
import type { Keepable } from './keep-book.js';
import type { BookState } from './memory-book.js';
import type { BookMark, RedisBook } from './redis-book.js';

export type FollowStats = Readonly<{
  version: number;
  /** Since the book was last seen; -1 before the first time. */
  ageMs: number;
  /** Looks at the book that failed. */
  failures: number;
  /** Times that a change was only found by looking. */
  missed: number;
  /** Bans put back into a book that had lost them. */
  restored: number;
}>;

export type Follower = BanFeed &
  Readonly<{
    /** Resolves after the first look, whether it went well or not. */
    start(): Promise<void>;
    /** Goes on from what was held before, by another follower or otherwise; before `start`. */
    carryOn(bans: Iterable<Ban>, lifted?: ReadonlyMap<string, number>): void;
    /** What operators lifted, and when; for `carryOn`. */
    lifted(): ReadonlyMap<string, number>;
    stats(): FollowStats;
    close(): void;
  }> &
  Keepable;

/** The line on which changes are told. */
export type Listening = Readonly<{ listening(): boolean; renew(): void; close(): void }>;

export type FollowDeps = Readonly<{
  book: Pick<RedisBook, 'mark' | 'readAll' | 'putBack' | 'lift' | 'sweep'>;
  /** Begins to listen at once. */
  subscribe: (onMessage: (text: string) => void) => Listening;
  clock: Clock;
  log: (level: 'info' | 'warn', text: string) => void;
  pollMs: () => number;
  /** Who puts back, for the audit trail. */
  actor: string;
}>;

/** What is on its way is not missed yet. */
const GRACE_MS = 50;
const WAITING_MAX = 10_000;
const LIFTED_MAX = 10_000;
const STEP_MS = 1_000;
/** Longer than detectors' bans last. */
const LIFTED_MS = 30 * 86_400_000;
const SWEEP_EVERY_MS = 30_000;

type Message = Readonly<{ epoch: string; version: number; change: FeedChange; liftedMs: number }>;

export function followBook(deps: FollowDeps): Follower {
  return new Following(deps);
}

class Following implements Follower {
  private readonly held = new Map<string, Ban>();
  private readonly liftings = new Map<string, number>();
  private readonly listeners = new Set<(change: FeedChange) => void>();
  private readonly counts = { failures: 0, missed: 0, restored: 0 };
  private readonly line: Listening;
  /** What `held` belongs to; undefined before the first read. */
  private mark: BookMark | undefined;
  /** True where the last read was not carried through. */
  private behind = false;
  private reading: Promise<void> | undefined;
  private waiting: Message[] = [];
  private timer: NodeJS.Timeout | undefined;
  private soon: NodeJS.Timeout | undefined;
  private seenMs = -1;
  private sweptMs = 0;
  private skew = 0;
  private written: (written: Written) => void = () => undefined;
  private failing = false;
  private closed = false;

  constructor(private readonly deps: FollowDeps) {
    this.line = deps.subscribe((text) => this.hear(text));
  }

  bans(): Iterable<Ban> {
    return this.held.values();
  }

  skewMs(): number {
    return this.skew;
  }

  listen(listener: (change: FeedChange) => void): () => void {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  }

  lifted(): ReadonlyMap<string, number> {
    return this.liftings;
  }

  carryOn(bans: Iterable<Ban>, lifted?: ReadonlyMap<string, number>): void {
    for (const ban of bans) this.held.set(subjectKey(ban.subject), ban);
    for (const [key, ms] of lifted ?? []) this.liftings.set(key, ms);
  }

  /** Of lifted bans only what keeps them from coming back. */
  state(): BookState {
    const forgetMs = this.deps.clock.nowMs() + LIFTED_MS;
    const ledger = [...this.liftings].map(
      ([key, pardonMs]) => [key, { ...NO_ENTRY, pardonMs }, forgetMs] as const,
    );
    return { version: this.mark?.version ?? 0, bans: [...this.held.values()], ledger, audit: [] };
  }

  restore({ bans, ledger }: BookState): void {
    const now = this.deps.clock.nowMs();
    const lifted = ledger.filter(([, { pardonMs }, forgetMs]) => pardonMs > 0 && forgetMs > now);
    this.carryOn(
      bans.filter(({ untilMs }) => untilMs > now),
      new Map(lifted.map(([key, { pardonMs }]) => [key, pardonMs])),
    );
  }

  of(key: string): Holding {
    const pardonMs = this.liftings.get(key);
    const entry = pardonMs === undefined ? undefined : { ...NO_ENTRY, pardonMs };
    return { ban: this.held.get(key), entry, forgetMs: this.deps.clock.nowMs() + LIFTED_MS };
  }

  onWrite(work: (written: Written) => void): void {
    this.written = work;
  }

  async start(): Promise<void> {
    await this.look();
    let waitedMs = 0;
    // In short steps, so that a reload which shortens the wait is obeyed soon.
    const again = (): void => {
      if (this.closed) return;
      const leftMs = this.deps.pollMs() - waitedMs;
      const stepMs = Math.max(0, Math.min(leftMs, STEP_MS));
      waitedMs = leftMs > STEP_MS ? waitedMs + stepMs : 0;
      this.timer = setTimeout(waitedMs > 0 ? again : () => void this.look().then(again), stepMs);
    };
    again();
  }

  stats(): FollowStats {
    const ageMs = this.seenMs < 0 ? -1 : Math.max(0, this.deps.clock.nowMs() - this.seenMs);
    return { ...this.counts, ageMs, version: this.mark?.version ?? 0 };
  }

  close(): void {
    this.closed = true;
    clearTimeout(this.timer);
    clearTimeout(this.soon);
    this.line.close();
    this.listeners.clear();
  }

  /** Never rejects. */
  private async look(): Promise<void> {
    try {
      const now = await this.deps.book.mark();
      this.met(now);
      if (!this.isLevel(now)) await this.catchUp(now);
      await this.sweep();
    } catch (error) {
      this.failed(error);
    }
  }

  private isLevel(now: BookMark): boolean {
    const { mark } = this;
    if (mark === undefined || this.behind || mark.epoch !== now.epoch) return false;
    // Before anybody banned anything the ledger has no epoch.
    const sameLedger = mark.ledgerEpoch === now.ledgerEpoch || mark.ledgerEpoch === '';
    return sameLedger && mark.version === now.version;
  }

  private async catchUp(now: BookMark): Promise<void> {
    const { mark, behind } = this;
    if (!behind && mark?.epoch === now.epoch && mark.version < now.version) {
      await sleep(GRACE_MS);
      if (this.mark!.version >= now.version && this.mark!.epoch === now.epoch) return;
      this.counts.missed++;
      // It would have been told by a line that hears.
      if (this.line.listening()) this.line.renew();
    }
    await this.read();
  }

  private read(): Promise<void> {
    this.reading ??= this.deps.book
      .readAll()
      .then((all) => this.reconcile(all))
      .finally(() => {
        this.reading = undefined;
        const heard = this.waiting;
        this.waiting = [];
        for (const message of heard) this.take(message);
      });
    return this.reading;
  }

  private async reconcile(all: Awaited<ReturnType<RedisBook['readAll']>>): Promise<void> {
    const before = this.mark;
    const { bans, ...mark } = all;
    this.met(mark);
    this.mark = mark;
    this.behind = true;
    const lost =
      before !== undefined &&
      ((before.epoch !== '' && before.epoch !== mark.epoch) ||
        (before.ledgerEpoch !== '' && before.ledgerEpoch !== mark.ledgerEpoch));
    const back = new Map(lost ? this.liftings : []);
    const there = new Set<string>();
    for (const ban of bans) {
      const key = subjectKey(ban.subject);
      there.add(key);
      const liftedMs = this.liftings.get(key) ?? 0;
      if (liftedMs >= ban.sinceMs) back.set(key, liftedMs);
      else if (this.held.get(key)?.id !== ban.id) this.put(ban, before !== undefined);
    }
    const missing: Ban[] = [];
    for (const [key, ban] of this.held) {
      if (there.has(key)) continue;
      if (ban.untilMs > mark.nowMs) missing.push(ban);
      else this.held.delete(key);
    }
    if (back.size > 0) await this.deps.book.lift(back);
    if (missing.length > 0) await this.putBack(missing);
    this.behind = false;
  }

  private async putBack(missing: readonly Ban[]): Promise<void> {
    const { book, actor, log } = this.deps;
    const answers = await book.putBack(missing, actor);
    let restored = 0;
    for (const [at, answer] of answers.entries()) {
      const { subject, id } = missing[at]!;
      if (answer === 'restored') restored++;
      const key = subjectKey(subject);
      // Some time before the book was read, that is; when exactly, only the book knows.
      if (answer === 'lifted') this.remember(key, this.mark!.nowMs);
      if (answer === 'lifted' || answer === 'ended' || answer === 'full')
        if (this.held.get(key)?.id === id) this.drop(key);
    }
    this.counts.restored += restored;
    if (restored > 0) log('warn', `bans: Redis had lost ${restored}, which are put back`);
  }

  private hear(text: string): void {
    const message = messageOf(text);
    if (message === undefined || this.mark === undefined) return this.readSoon();
    if (this.reading === undefined) return this.take(message);
    if (this.waiting.length < WAITING_MAX) this.waiting.push(message);
  }

  private take({ epoch, version, change, liftedMs }: Message): void {
    const { mark } = this;
    if (mark === undefined) return;
    const first = mark.epoch === '' && version === 1;
    if (epoch !== mark.epoch && !first) return this.readSoon();
    if (version <= mark.version) return;
    if (version > mark.version + 1) return this.readSoon();
    this.mark = { ...mark, epoch, version };
    if (change.kind === 'added') return this.put(change.ban, true);
    const key = subjectKey(change.subject);
    if (liftedMs > 0) this.remember(key, liftedMs);
    this.drop(key);
  }

  private remember(key: string, liftedMs: number): void {
    this.liftings.delete(key);
    this.liftings.set(key, liftedMs);
    this.written({ key });
    const oldest = this.liftings.size > LIFTED_MAX ? this.liftings.keys().next().value : undefined;
    if (oldest !== undefined) this.liftings.delete(oldest);
  }

  private put(ban: Ban, live: boolean): void {
    const key = subjectKey(ban.subject);
    // One that was put back is known already.
    const known = this.held.get(key)?.id === ban.id;
    this.held.set(key, ban);
    if (!known) this.tell({ kind: 'added', ban, live });
  }

  private drop(key: string): void {
    const subject = subjectOf(key);
    if (this.held.delete(key) && subject !== undefined) this.tell({ kind: 'removed', subject });
  }

  private tell(change: FeedChange): void {
    const subject = change.kind === 'added' ? change.ban.subject : change.subject;
    this.written({ key: subjectKey(subject) });
    for (const listener of this.listeners) listener(change);
  }

  private readSoon(): void {
    if (this.closed) return;
    this.soon ??= setTimeout(() => {
      this.soon = undefined;
      this.read().catch((error: unknown) => this.failed(error));
    }, GRACE_MS);
  }

  private met({ nowMs }: BookMark): void {
    const now = this.deps.clock.nowMs();
    this.seenMs = now;
    this.skew = Math.abs(now - nowMs) < 1000 ? 0 : now - nowMs;
    if (this.failing) this.deps.log('info', 'bans: Redis answers again');
    this.failing = false;
  }

  private failed(error: unknown): void {
    this.counts.failures++;
    if (this.failing || this.closed) return;
    this.failing = true;
    this.deps.log('warn', `bans: Redis cannot be read, the last list holds: ${describeFault(error)}`);
  }

  private async sweep(): Promise<void> {
    const now = this.deps.clock.nowMs();
    if (now - this.sweptMs < SWEEP_EVERY_MS) return;
    this.sweptMs = now;
    for (const [key, ban] of this.held) if (ban.untilMs + this.skew <= now) this.held.delete(key);
    await this.deps.book.sweep();
  }
}

function messageOf(text: string): Message | undefined {
  const given = (parsed(text) ?? {}) as Readonly<Record<string, unknown>>;
  const { epoch, version, kind, key, liftedMs } = given;
  if (typeof epoch !== 'string' || typeof version !== 'number') return undefined;
  if (kind === 'added') {
    const ban = asBan(given['ban']);
    return ban && { epoch, version, change: { kind, ban, live: true }, liftedMs: 0 };
  }
  const subject = kind === 'removed' && typeof key === 'string' ? subjectOf(key) : undefined;
  if (subject === undefined) return undefined;
  return { epoch, version, change: { kind: 'removed', subject }, liftedMs: Number(liftedMs) || 0 };
}
