/**
 * Keeps the bans of a supervisor on disk: loads them at the start, saves them soon after each change. What
 * changed in the last second before a crash is lost; many bans, which take long to write, are written less
 * often.
 */
import { describeFault } from '../core/errors.js';
import { loadBook, saveBook } from './book-file.js';
import type { BookState } from './memory-book.js';

/** What is kept: a book, or what a follower knows of one. */
export type Keepable = Readonly<{
  state(): BookState;
  restore(state: BookState): void;
  /** Runs after whatever `state` would show; one at a time. */
  onWrite(work: () => void): void;
}>;

export type KeptBook = Readonly<{
  /** A damaged file is a warning. Never throws. */
  load(): Promise<void>;
  /** Saves what has changed since the last time. */
  close(): Promise<void>;
}>;

type Log = (level: 'warn', text: string, fields?: Readonly<Record<string, unknown>>) => void;

const SAVE_MS = 1_000;
/** Of the time, at most a twentieth goes into saving. */
const REST = 20;

export function keepBook(book: Keepable, path: string, log: Log): KeptBook {
  let timer: NodeJS.Timeout | undefined;
  let changed = false;
  let closed = false;
  let tookMs = 0;
  let saving: Promise<void> = Promise.resolve();
  const save = async (): Promise<void> => {
    if (!changed) return;
    changed = false;
    const startedMs = performance.now();
    try {
      await saveBook(path, book.state());
    } catch (error) {
      changed = true;
      log('warn', `bans cannot be saved: ${error instanceof Error ? error.message : String(error)}`, { file: path });
    }
    tookMs = performance.now() - startedMs;
  };
  const saveSoon = (): void => {
    changed = true;
    if (closed) return;
    timer ??= setTimeout(
      () => {
        saving = save().finally(() => {
          timer = undefined;
          if (changed) saveSoon();
        });
      },
      Math.max(SAVE_MS, tookMs * REST),
    ).unref();
  };
  book.onWrite(saveSoon);
  return {
    async load() {
      try {
        const state = await loadBook(path);
        if (state !== undefined) book.restore(state);
      } catch (error) {
        const set = { file: path, code: 'STATE_UNREADABLE' };
        log('warn', `bans: there were some, and none is in force now: ${describeFault(error)}`, set);
      }
    },
    async close() {
      closed = true;
      clearTimeout(timer);
      await saving;
      await save();
    },
  };
}
