/**
 * Runs the loader once and collects its answer: bounded in time and output, never through a shell. What it
 * does not read of its input is no error by itself: its exit code tells.
 */
import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import type { Readable } from 'node:stream';
import { Fault } from '../core/errors.js';

export type Call = Readonly<{
  file: string;
  args: readonly string[];
  timeoutMs: number;
  /** Pieces of standard input, written as fast as they are taken. */
  input?: Iterable<string>;
}>;

export type Answered = Readonly<{ code: number; stdout: string; stderr: string }>;

/** A list of a million entries has 120 MB. */
const OUTPUT_BYTES_MAX = 192 * 1024 * 1024;
const STDERR_BYTES_MAX = 16 * 1024;

const KILLED = { why: 'it was killed', remedy: 'the filter stays as it was; it is tried again' };

/** Rejects with XDP_LOADER_MISSING, XDP_LOADER_TIMEOUT or XDP_LOADER_FAILED; any exit code is an answer. */
export async function runLoader({ file, args, timeoutMs, input }: Call): Promise<Answered> {
  const child = spawn(file, args, { stdio: ['pipe', 'pipe', 'pipe'], windowsHide: true });
  const what = args[0] ?? '';
  let late = false;
  const timer = setTimeout(() => {
    late = true;
    child.kill('SIGKILL');
  }, timeoutMs);
  try {
    const ended = ending(child, file);
    const [code, stdout, stderr] = await Promise.all([
      ended,
      textOf(child.stdout, OUTPUT_BYTES_MAX),
      textOf(child.stderr, STDERR_BYTES_MAX),
      feed(child, input ?? []),
    ]);
    if (late) throw new Fault('XDP_LOADER_TIMEOUT', { what, ms: timeoutMs });
    if (code === undefined) throw new Fault('XDP_LOADER_FAILED', { what, ...KILLED });
    return { code, stdout, stderr: stderr.trim() };
  } finally {
    clearTimeout(timer);
    if (child.exitCode === null && child.signalCode === null) child.kill('SIGKILL');
  }
}

/** Its exit code; undefined where a signal ended it. */
function ending(child: ChildProcess, file: string): Promise<number | undefined> {
  return new Promise((resolve, reject) => {
    child.once('error', (error: NodeJS.ErrnoException) => {
      reject(new Fault('XDP_LOADER_MISSING', { file, why: error.code ?? error.message }, error));
    });
    child.once('close', (code) => resolve(code ?? undefined));
  });
}

/** The first `max` bytes; the rest is read and thrown away, so that the child need not wait. */
async function textOf(stream: Readable, max: number): Promise<string> {
  const parts: Buffer[] = [];
  let bytes = 0;
  try {
    for await (const part of stream as AsyncIterable<Buffer>) {
      if (bytes < max) parts.push(part);
      bytes += part.length;
    }
  } catch {
    // A pipe that broke with its process: what there is, is the answer.
  }
  return Buffer.concat(parts).toString('utf8');
}

async function feed(child: ChildProcess, input: Iterable<string>): Promise<void> {
  const { stdin } = child;
  if (stdin === null) return;
  let isOpen = true;
  const closed = (): void => void (isOpen = false);
  // A child that died or does not care for the rest.
  stdin.on('error', closed);
  stdin.on('close', closed);
  child.once('close', closed);
  for (const piece of input) {
    if (!isOpen) return;
    if (!stdin.write(piece) && isOpen) await drained(child);
  }
  stdin.end();
}

async function drained(child: ChildProcess): Promise<void> {
  if (child.stdin === null) return;
  const stop = new AbortController();
  const { signal } = stop;
  try {
    await Promise.race([once(child.stdin, 'drain', { signal }), once(child, 'close', { signal })]);
  } catch {
    // The pipe broke; the next write is not made.
  } finally {
    stop.abort();
  }
}
