/**
 * Keeps the bans of a supervisor on disk: loads them at the start, appends each change to a journal within a
 * moment, and saves the whole now and then, which replaces the journal. Many bans, which take long to write,
 * are written as a whole less often; nothing but the last moment before a crash is lost either way.
 */
import { describeFault } from '../core/errors.js';
import { loadBook, saveBook } from './book-file.js';
import { createJournal, type Holding, type Journal, type Written } from './book-journal.js';
import type { BookState } from './memory-book.js';

/** What is kept: a book, or what a follower knows of one. */
export type Keepable = Readonly<{
  state(): BookState;
  restore(state: BookState): void;
  /** What is held of one subject now. */
  of(key: string): Holding;
  /** Runs after whatever `state` would show; one at a time. */
  onWrite(work: (written: Written) => void): void;
}>;

export type KeptBook = Readonly<{
  /** What is damaged is a warning. Never throws. */
  load(): Promise<void>;
  /** Saves what has changed since the last time; once, later changes are somebody else's. */
  close(): Promise<void>;
}>;

type Log = (level: 'warn', text: string, fields?: Readonly<Record<string, unknown>>) => void;

const SAVE_MS = 1_000;
/** Of the time, at most a twentieth goes into saving the whole … */
const REST = 20;
/** … but a journal is not let grow for longer or larger than this. */
const SAVE_MS_MAX = 30_000;
const JOURNAL_BYTES_MAX = 32 * 1024 * 1024;

export function keepBook(book: Keepable, path: string, log: Log): KeptBook {
  return new Keeping(book, path, log);
}

class Keeping implements KeptBook {
  private readonly journal: Journal;
  private timer: NodeJS.Timeout | undefined;
  private changed = false;
  private closed: Promise<void> | undefined;
  private waitMs = SAVE_MS;
  private hurried = false;
  private saving: Promise<void> | undefined;

  constructor(
    private readonly book: Keepable,
    private readonly path: string,
    private readonly log: Log,
  ) {
    this.journal = createJournal(path, {
      of: (key) => book.of(key),
      onFailure: (error) => this.failed(error),
    });
    book.onWrite((written) => {
      if (this.closed !== undefined) return;
      this.journal.write(written);
      this.saveSoon();
    });
  }

  async load(): Promise<void> {
    const { state, journalled, problems } = await loadBook(this.path);
    for (const problem of problems) {
      const lost = state === undefined ? 'there were some, and none is in force now' : 'some may be lost';
      const set = { file: this.path, code: problem.code };
      this.log('warn', `bans: ${lost}: ${describeFault(problem)}`, set);
    }
    if (state === undefined) return;
    this.book.restore(state);
    if (journalled > 0) this.saveSoon();
  }

  close(): Promise<void> {
    return (this.closed ??= this.end());
  }

  private async end(): Promise<void> {
    clearTimeout(this.timer);
    await this.saving;
    await this.save();
    await this.journal.close();
  }

  private saveSoon(): void {
    this.changed = true;
    if (this.closed !== undefined || this.saving !== undefined) return;
    const isLarge = this.journal.bytes() > JOURNAL_BYTES_MAX;
    if (isLarge && !this.hurried) {
      this.hurried = true;
      clearTimeout(this.timer);
      this.timer = undefined;
    }
    // Never at once: what was written may not be in the state yet.
    this.timer ??= setTimeout(() => this.saveNow(), isLarge ? 0 : this.waitMs).unref();
  }

  private saveNow(): void {
    this.saving = this.save().finally(() => {
      this.saving = undefined;
      this.timer = undefined;
      this.hurried = false;
      if (this.changed) this.saveSoon();
    });
  }

  private async save(): Promise<void> {
    if (!this.changed) return;
    this.changed = false;
    const startedMs = performance.now();
    try {
      const number = this.journal.turn();
      await saveBook(this.path, this.book.state(), number);
      await this.journal.dropBefore(number);
      const tookMs = performance.now() - startedMs;
      this.waitMs = Math.min(SAVE_MS_MAX, Math.max(SAVE_MS, tookMs * REST));
    } catch (error) {
      this.changed = true;
      // Each try leaves a journal: ever longer between them.
      this.waitMs = Math.min(SAVE_MS_MAX, this.waitMs * 2);
      this.failed(error);
    }
  }

  private failed(error: unknown): void {
    this.changed = true;
    const why = error instanceof Error ? error.message : String(error);
    this.log('warn', `bans cannot be saved: ${why}`, { file: this.path });
  }
}
