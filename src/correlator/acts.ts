/**
 * Carries proposals out: asks crawlers to prove themselves, asks the book, writes to the audit trail. What
 * the book could not take waits here (bounded) and is asked again with a back-off; nothing counts as read
 * before.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { subjectKey, type Subject } from '../controls/ban.js';
import type { BanAsk, BanBook, BanResult } from '../controls/ban-book-contract.js';
import { createEarlier, UNTOUCHED, type Earlier, type Touched } from './earlier.js';
import type { Note, Proposals } from './proposals.js';

export type ActCounts = Readonly<{
  /** Bans and watches by what the book answered. */
  outcomes: Readonly<Record<BanResult, number>>;
  /** Found, and proved to be crawlers that are welcome. */
  crawlers: number;
  /** Asks and notes that wait for the book. */
  waiting: number;
  /** Lost since too many waited. */
  lost: number;
  /** Times that the book could not be asked. */
  failures: number;
}>;

export type Acts = Readonly<{
  add(proposals: Proposals): void;
  /** What bans of the last quarter of an hour touched, but those that `isOwn`. */
  earlier(isOwn: (subjectKey: string) => boolean): Touched;
  isWaiting(): boolean;
  /** Resolves when nothing waits; rejects with the fault where the book cannot be asked now. */
  settled(): Promise<void>;
  counts(): ActCounts;
  /** What still waits is given up. */
  close(): void;
}>;

export type ActsDeps = Readonly<{
  book: Pick<BanBook, 'ban' | 'note'>;
  isCrawler: (subject: Subject) => Promise<boolean>;
  nowMs: () => number;
  onFailure: (error: unknown) => void;
  /** The book answers again. */
  onWell: () => void;
}>;

const WAITING_MAX = 50_000;
const NOTES_MAX = 1_000;
const BATCH = 200;
const RETRY_MS = [250, 500, 1_000, 2_000, 5_000];
const WINDOW_MS = 15 * 60_000;

type Waiting = Readonly<{ ask: BanAsk; touched: Touched }>;

export function createActs(deps: ActsDeps): Acts {
  return new Doing(deps);
}

class Doing implements Acts {
  private readonly asks = new Map<string, Waiting>();
  private readonly notes: Note[] = [];
  private readonly banned: Earlier = createEarlier(WINDOW_MS, WAITING_MAX);
  private readonly outcomes = { made: 0, replaced: 0, same: 0, pardoned: 0, full: 0 };
  private readonly tally = { crawlers: 0, lost: 0, failures: 0 };
  private working: Promise<void> | undefined;
  private failing: unknown;
  private waiters: (() => void)[] = [];
  private readonly closing = new AbortController();

  constructor(private readonly deps: ActsDeps) {}

  add({ asks, notes, touched }: Proposals): void {
    for (const ask of asks) {
      const subject = subjectKey(ask.subject);
      const key = `${ask.mode === 'watch' ? 'watch' : 'ban'} ${subject}`;
      if (this.asks.size >= WAITING_MAX && !this.asks.has(key)) this.tally.lost++;
      else this.asks.set(key, { ask, touched: touched.get(subject) ?? UNTOUCHED });
    }
    for (const note of notes) {
      if (this.notes.length >= NOTES_MAX) this.tally.lost++;
      else this.notes.push(note);
    }
    if (this.isWaiting()) this.working ??= this.work();
  }

  readonly earlier = (isOwn: (subjectKey: string) => boolean): Touched =>
    this.banned.sum(this.deps.nowMs(), isOwn);

  async settled(): Promise<void> {
    while (this.isWaiting()) {
      if (this.failing !== undefined) throw this.failing;
      await new Promise<void>((resolve) => this.waiters.push(resolve));
    }
  }

  counts(): ActCounts {
    return { outcomes: { ...this.outcomes }, ...this.tally, waiting: this.asks.size + this.notes.length };
  }

  close(): void {
    this.closing.abort();
  }

  isWaiting(): boolean {
    return this.asks.size > 0 || this.notes.length > 0;
  }

  private async work(): Promise<void> {
    let failed = 0;
    while (this.isWaiting() && !this.closing.signal.aborted) {
      try {
        await this.step();
        failed = 0;
        if (this.failing !== undefined) this.deps.onWell();
        this.failing = undefined;
      } catch (error) {
        this.failing = error;
        this.tally.failures++;
        this.deps.onFailure(error);
      }
      this.wake();
      if (this.failing !== undefined) await this.rest(RETRY_MS[Math.min(failed++, RETRY_MS.length - 1)]!);
    }
    this.working = undefined;
    this.wake();
  }

  private async rest(ms: number): Promise<void> {
    await sleep(ms, undefined, { signal: this.closing.signal, ref: false }).catch(() => undefined);
  }

  private wake(): void {
    const waiters = this.waiters;
    this.waiters = [];
    for (const resolve of waiters) resolve();
  }

  private async step(): Promise<void> {
    const batch = [...this.asks].slice(0, BATCH);
    const crawlers = await Promise.all(batch.map(([, { ask }]) => this.deps.isCrawler(ask.subject)));
    const asked = batch.filter((_, at) => !crawlers[at]);
    const outcomes = asked.length === 0 ? [] : await this.deps.book.ban(asked.map(([, { ask }]) => ask));
    for (const [at, { result }] of outcomes.entries()) {
      this.outcomes[result]++;
      const { ask, touched } = asked[at]![1];
      if (ask.mode !== 'enforce' || (result !== 'made' && result !== 'replaced')) continue;
      this.banned.add(subjectKey(ask.subject), touched, this.deps.nowMs());
    }
    for (const [at, [key, waiting]] of batch.entries()) {
      // A later ask about the same subject may have taken its place meanwhile.
      if (this.asks.get(key) === waiting) this.asks.delete(key);
      if (crawlers[at] !== true) continue;
      this.tally.crawlers++;
    }
    for (let note = this.notes[0]; note !== undefined; note = this.notes[0]) {
      await this.deps.book.note(note);
      this.notes.shift();
    }
  }
}
