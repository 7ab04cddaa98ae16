/**
 * The JSON log: a bounded queue in front of one file descriptor, written in batches off the request path. A full
 * disk, a dead or slow reader loses lines, counts them and says so on standard error once a minute; it never stops
 * traffic, spins or throws. Not pino: its sonic-boom destination has crashed or gone silent in just these cases
 * (pinojs/pino #2351, sonic-boom #162), and one event type needs no logger.
 */
import { close, fstat, open, stat, write } from 'node:fs';
import { promisify } from 'node:util';
import type { LogConfig } from './config.js';

const openFile = promisify(open);
const closeFile = promisify(close);
const statFile = promisify(stat);
const fstatFile = promisify(fstat);

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
  dropped(): number;
};

const FLUSH_MS = 10;
const BATCH_BYTES = 256 * 1024;
const RETRY_MS = 250;
const REPORT_MS = 60_000;
const ROTATION_CHECK_MS = 2_000;
const RANK = { info: 0, warn: 1, error: 2 } as const;

type Deps = Readonly<{ file: string | undefined; nowMs: () => number; complain?: (text: string) => void }>;

export function createEventLog(config: LogConfig, deps: Deps): EventLog {
  const sink = new Sink(config, deps);
  return {
    line: (text) => sink.push(`${text}\n`),
    note(level, message, fields) {
      if (RANK[level] < RANK[config.level]) return;
      const time = new Date(deps.nowMs()).toISOString();
      sink.push(`${JSON.stringify({ level, time, msg: message, ...fields })}\n`);
    },
    reopen: () => sink.reopen(),
    close: (ms = 2_000) => sink.close(ms),
    dropped: () => sink.dropped,
  };
}

class Sink {
  dropped = 0;
  private queue: string[] = [];
  private queueBytes = 0;
  private fd: number | undefined;
  private busy = false;
  private timer: NodeJS.Timeout | undefined;
  private reportedMs = 0;
  private reported = 0;
  private checkedMs = 0;
  private stale = false;
  private closing = false;

  constructor(
    private readonly config: LogConfig,
    private readonly deps: Deps,
  ) {
    if (deps.file === undefined) this.fd = 1;
  }

  push(line: string): void {
    if (this.queue.length >= this.config.queueEvents || this.queueBytes + line.length > this.config.queueBytes) {
      this.dropped++;
      this.report('the queue is full');
      return;
    }
    this.queue.push(line);
    this.queueBytes += line.length;
    this.schedule(FLUSH_MS);
  }

  reopen(): void {
    this.stale = true;
    this.schedule(0);
  }

  async close(ms: number): Promise<number> {
    this.closing = true;
    const until = Date.now() + ms;
    this.schedule(0);
    while ((this.queue.length > 0 || this.busy) && Date.now() < until) {
      await new Promise((resolve) => setTimeout(resolve, 5));
    }
    clearTimeout(this.timer);
    this.dropped += this.queue.length;
    this.queue = [];
    if (this.fd !== undefined && this.deps.file !== undefined) await closeFile(this.fd).catch(() => undefined);
    this.fd = undefined;
    return this.dropped;
  }

  private schedule(ms: number): void {
    if (this.busy || this.timer !== undefined) return;
    this.timer = setTimeout(() => {
      this.timer = undefined;
      this.busy = true;
      void this.flush().then((waitMs) => {
        this.busy = false;
        if (this.queue.length > 0 || this.stale) this.schedule(waitMs);
      });
    }, ms);
    if (!this.closing) this.timer.unref();
  }

  /** Writes what waits; answers how long to wait before the next try. Never rejects. */
  private async flush(): Promise<number> {
    try {
      const fd = await this.descriptor();
      while (this.queue.length > 0) {
        const batch = this.takeBatch();
        const left = await this.writeAll(fd, Buffer.from(batch.text));
        if (left > 0) {
          this.dropped += batch.lines;
          return RETRY_MS;
        }
      }
      return FLUSH_MS;
    } catch (error) {
      this.report((error as Error).message);
      return RETRY_MS;
    }
  }

  private takeBatch(): { text: string; lines: number } {
    let text = '';
    let lines = 0;
    while (lines < this.queue.length && text.length < BATCH_BYTES) text += this.queue[lines++]!;
    this.queue.splice(0, lines);
    this.queueBytes -= text.length;
    return { text, lines };
  }

  /** Bytes that could not be written. A pipe that is full is waited for, up to a second. */
  private async writeAll(fd: number, bytes: Buffer): Promise<number> {
    let at = 0;
    for (let waits = 0; at < bytes.length; ) {
      try {
        at += await writeOnce(fd, bytes.subarray(at));
        waits = 0;
      } catch (error) {
        const code = (error as NodeJS.ErrnoException).code;
        if (code === 'EAGAIN' && waits++ < 20) await new Promise((resolve) => setTimeout(resolve, 50));
        else {
          this.report((error as Error).message);
          return bytes.length - at;
        }
      }
    }
    return 0;
  }

  private async descriptor(): Promise<number> {
    const { file } = this.deps;
    if (file === undefined) return 1;
    const now = this.deps.nowMs();
    if (this.fd !== undefined && !this.stale && now - this.checkedMs > ROTATION_CHECK_MS) {
      this.checkedMs = now;
      const [here, there] = await Promise.all([fstatFile(this.fd), statFile(file).catch(() => undefined)]);
      this.stale = there === undefined || there.ino !== here.ino;
    }
    if (this.stale && this.fd !== undefined) {
      await closeFile(this.fd).catch(() => undefined);
      this.fd = undefined;
    }
    this.stale = false;
    this.fd ??= await openFile(file, 'a', 0o640);
    return this.fd;
  }

  private report(why: string): void {
    const now = this.deps.nowMs();
    if (now - this.reportedMs < REPORT_MS) return;
    this.reportedMs = now;
    const lost = this.dropped - this.reported;
    this.reported = this.dropped;
    const where = this.deps.file ?? 'standard output';
    const complain = this.deps.complain ?? ((text: string) => void process.stderr.write(`${text}\n`));
    complain(`tidegate: cannot write the log to ${where} (${why}); ${lost} lines lost since the last report`);
  }
}

function writeOnce(fd: number, bytes: Buffer): Promise<number> {
  return new Promise((resolve, reject) => {
    write(fd, bytes, 0, bytes.length, null, (error, count) => (error === null ? resolve(count) : reject(error)));
  });
}
