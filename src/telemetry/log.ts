/**
 * The JSON log: a bounded queue in front of one target, written in batches off the request path. A full disk,
 * a dead or slow reader loses lines, counts them and says so on standard error once a minute; it never stops
 * traffic, spins or throws. Not pino: its sonic-boom destination has crashed or gone silent in just these
 * cases (pinojs/pino #2351, sonic-boom #162), and one event type needs no logger.
 */
import { write } from 'node:fs';
import type { LogConfig } from './config.js';
import { fileTarget, streamTarget, type Target } from './target.js';

export type LogLevel = 'info' | 'warn' | 'error';

export type EventLog = {
  /** One whole line without its end. */
  line(text: string): void;
  /** An operational line in the same stream. */
  note(level: LogLevel, message: string, fields?: Readonly<Record<string, unknown>>): void;
  /** Opens the file anew (after rotation). */
  reopen(): void;
  /** Waits up to `ms` for the queue to empty; answers lines lost in all. */
  close(ms?: number): Promise<number>;
  /** Lines lost so far. */
  dropped(): number;
};

const FLUSH_MS = 10;
const RETRY_MS = 250;
const BUSY_RETRY_MS = 50;
const BUSY_TRIES = 20;
const REPORT_MS = 60_000;
const LINE_END = 0x0a;
const RANK = { info: 0, warn: 1, error: 2 } as const;

type Deps = Readonly<{
  /** Absolute path; standard output where undefined. */
  file: string | undefined;
  nowMs: () => number;
  /** Where losses are reported; standard error where absent. */
  complain?: (text: string) => void;
  /** Takes the place of `file` in tests. */
  target?: Target;
}>;

/** Never throws; a file that cannot be opened is tried again and reported like any other loss. */
export function createEventLog(config: LogConfig, deps: Deps): EventLog {
  const sink = new Sink(config, deps);
  return {
    line: (text) => sink.push(`${text}\n`),
    note(level, message, fields) {
      if (RANK[level] < RANK[config.level]) return;
      const time = new Date(deps.nowMs()).toISOString();
      sink.push(`${JSON.stringify({ ...fields, level, time, msg: message })}\n`);
    },
    reopen: () => sink.target.reopen(),
    close: (ms = 2_000) => sink.close(ms),
    dropped: () => sink.dropped,
  };
}

class Sink {
  readonly target: Target;
  dropped = 0;
  private queue: string[] = [];
  private queueBytes = 0;
  /** The rest of a line of which a part was written: it goes first, so that no line is torn. */
  private rest: Buffer | undefined;
  private busy = false;
  private timer: NodeJS.Timeout | undefined;
  private state: 'open' | 'closing' | 'closed' = 'open';
  private reportedMs: number | undefined;
  private reported = 0;
  private readonly complain: (text: string) => void;

  constructor(
    private readonly config: LogConfig,
    private readonly deps: Deps,
  ) {
    const { file } = deps;
    this.target = deps.target ?? (file === undefined ? streamTarget(1) : fileTarget(file, deps.nowMs));
    this.complain = deps.complain ?? complainOnStderr();
  }

  push(line: string): void {
    const full =
      this.queue.length >= this.config.queueEvents || this.queueBytes + line.length > this.config.queueBytes;
    if (full || this.state === 'closed') {
      this.dropped++;
      this.report('the queue is full');
      return;
    }
    this.queue.push(line);
    this.queueBytes += line.length;
    this.schedule(FLUSH_MS);
  }

  async close(ms: number): Promise<number> {
    this.state = 'closing';
    const untilMs = performance.now() + ms;
    this.schedule(0);
    while ((this.queue.length > 0 || this.busy) && performance.now() < untilMs) {
      await new Promise((resolve) => setTimeout(resolve, 5));
    }
    this.state = 'closed';
    clearTimeout(this.timer);
    this.dropped += this.queue.length;
    this.queue = [];
    if (!this.busy) await this.target.close();
    return this.dropped;
  }

  private schedule(ms: number): void {
    if (this.busy || this.timer !== undefined || this.state === 'closed') return;
    this.timer = setTimeout(() => {
      this.timer = undefined;
      this.busy = true;
      void this.flush().then((waitMs) => {
        this.busy = false;
        if (this.queue.length > 0) this.schedule(waitMs);
      });
    }, ms);
    if (this.state === 'open') this.timer.unref();
  }

  /** Writes what waits; answers how long to wait before the next try. Never rejects. */
  private async flush(): Promise<number> {
    while (this.queue.length > 0 && this.state !== 'closed') {
      const batch = this.takeBatch();
      const why = await this.writeAll(batch);
      if (why !== undefined) {
        this.report(why);
        return RETRY_MS;
      }
    }
    if (this.dropped > this.reported) this.report('it can be written again');
    return FLUSH_MS;
  }

  private takeBatch(): Buffer {
    let text = this.queue[0] ?? '';
    let lines = 1;
    for (let next; (next = this.queue[lines]) !== undefined; lines++) {
      if (text.length + next.length > this.target.batchBytes) break;
      text += next;
    }
    this.queue.splice(0, lines);
    this.queueBytes -= text.length;
    const bytes = Buffer.from(text);
    return this.rest === undefined ? bytes : Buffer.concat([this.rest, bytes]);
  }

  /**
   * Answers why a part could not be written; its lines are counted as lost. A full pipe is waited for a
   * second.
   */
  private async writeAll(bytes: Buffer): Promise<string | undefined> {
    const pending = this.rest?.length ?? 0;
    this.rest = undefined;
    let at = 0;
    for (let tries = 0; at < bytes.length;) {
      try {
        at += await this.target.write(bytes.subarray(at));
        tries = 0;
      } catch (error) {
        const { code, message } = error as NodeJS.ErrnoException;
        if (code === 'EAGAIN' && tries++ < BUSY_TRIES) {
          await new Promise((resolve) => setTimeout(resolve, BUSY_RETRY_MS).unref());
          continue;
        }
        this.lose(bytes, at, pending);
        return message;
      }
    }
    return undefined;
  }

  /** Keeps the rest of a torn line, counts the whole ones behind it. */
  private lose(bytes: Buffer, at: number, pending: number): void {
    let from = at;
    const torn = at < pending || (at > 0 && bytes[at - 1] !== LINE_END);
    if (torn) {
      from = bytes.indexOf(LINE_END, at) + 1;
      this.rest = Buffer.from(bytes.subarray(at, from));
    }
    for (let next = from; (next = bytes.indexOf(LINE_END, next) + 1) > 0;) this.dropped++;
  }

  private report(why: string): void {
    const nowMs = this.deps.nowMs();
    if (this.reportedMs !== undefined && nowMs - this.reportedMs < REPORT_MS) return;
    this.reportedMs = nowMs;
    const lost = this.dropped - this.reported;
    this.reported = this.dropped;
    const where = this.deps.file ?? 'standard output';
    this.complain(`tidegate: log to ${where}: ${why}; ${lost} lines lost since the last report`);
  }
}

/** At most one report under way, and no `process.stderr`: that one throws when its reader is gone. */
function complainOnStderr(): (text: string) => void {
  let busy = false;
  return (text) => {
    if (busy) return;
    busy = true;
    write(2, `${text}\n`, () => (busy = false));
  };
}
