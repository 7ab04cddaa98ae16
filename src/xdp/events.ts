/**
 * Follows what the filter tells of sources that cross a cap: a long-running loader that prints one JSON line
 * each. It is started again when it ends, ever more slowly where it ends at once; lines that cannot be read
 * are counted.
 */
import { spawn, type ChildProcess } from 'node:child_process';
import type { KernelCap } from '../core/kernel-event.js';

/** One source over one cap; `timeMs` by the wall clock. */
export type Crossing = Readonly<{
  timeMs: number;
  source: string;
  what: KernelCap;
  cap: number;
  dropped: boolean;
}>;

export type EventStats = { read: number; unread: number; restarts: number };

export type EventReader = Readonly<{
  start(): void;
  /** Begins anew soon: the filter is another one. */
  renew(): void;
  close(): Promise<void>;
  stats(): Readonly<EventStats>;
}>;

type Deps = Readonly<{
  /** The loader and its arguments. */
  command: readonly [file: string, ...args: string[]];
  take: (crossing: Crossing) => void;
}>;

const LINE_MAX = 4096;
const BACKOFF_MS = { first: 500, most: 30_000 };
const STEADY_MS = 10_000;

export function createEventReader({ command: [file, ...args], take }: Deps): EventReader {
  const stats: EventStats = { read: 0, unread: 0, restarts: 0 };
  let child: ChildProcess | undefined;
  let timer: NodeJS.Timeout | undefined;
  let waitMs = BACKOFF_MS.first;
  let isClosed = false;

  const line = (text: string): void => {
    const crossing = crossingOf(text);
    if (crossing === undefined) stats.unread++;
    else {
      stats.read++;
      take(crossing);
    }
  };
  const run = (): void => {
    const started = performance.now();
    const mine = spawn(file, args, { stdio: ['ignore', 'pipe', 'ignore'], windowsHide: true });
    child = mine;
    const split = createLines(line, () => stats.unread++);
    mine.stdout.on('data', (part: Buffer) => split(part.toString('utf8')));
    mine.stdout.on('error', () => undefined);
    let isOver = false;
    const over = (): void => {
      if (isOver || isClosed) return;
      isOver = true;
      stats.restarts++;
      waitMs =
        performance.now() - started > STEADY_MS ? BACKOFF_MS.first : Math.min(BACKOFF_MS.most, waitMs * 2);
      timer = setTimeout(run, waitMs);
    };
    mine.once('error', over);
    mine.once('close', over);
  };
  return {
    start: run,
    renew: () => void child?.kill('SIGKILL'),
    async close() {
      isClosed = true;
      clearTimeout(timer);
      const mine = child;
      if (mine === undefined || mine.exitCode !== null || mine.signalCode !== null || mine.pid === undefined)
        return;
      const ended = new Promise((resolve) => mine.once('close', resolve));
      mine.kill('SIGKILL');
      await ended;
    },
    stats: () => stats,
  };
}

/** Cuts a stream into lines; one that is too long is thrown away to its end. */
export function createLines(take: (line: string) => void, tooLong: () => void): (part: string) => void {
  let rest = '';
  let isSkipping = false;
  return (part) => {
    const pieces = (rest + part).split('\n');
    rest = pieces.pop() ?? '';
    for (const piece of pieces) {
      if (isSkipping) isSkipping = false;
      else if (piece.length > LINE_MAX) tooLong();
      else if (piece !== '') take(piece);
    }
    if (rest.length <= LINE_MAX) return;
    if (!isSkipping) tooLong();
    isSkipping = true;
    rest = '';
  };
}

function crossingOf(text: string): Crossing | undefined {
  let read: unknown;
  try {
    read = JSON.parse(text);
  } catch {
    return undefined;
  }
  if (typeof read !== 'object' || read === null) return undefined;
  const { atMs, net, cap, limit, dryRun } = read as Record<string, unknown>;
  const what = cap === 'packet' ? 'packets' : cap === 'syn' ? 'syn' : undefined;
  if (what === undefined || typeof atMs !== 'number' || typeof net !== 'string' || typeof limit !== 'number')
    return undefined;
  return { timeMs: atMs, source: net.replace(/\/32$/, ''), what, cap: limit, dropped: dryRun !== true };
}
