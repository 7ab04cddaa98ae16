/**
 * Observed scores on disk, one JSON line each between a head and a foot: written to a draft and renamed, so
 * that a crash leaves the old file or the new one; a file without its foot or with a damaged line is not
 * believed.
 */
import { once } from 'node:events';
import { createReadStream, createWriteStream } from 'node:fs';
import { mkdir, rename, rm } from 'node:fs/promises';
import { dirname } from 'node:path';
import { createInterface } from 'node:readline';
import { Fault } from '../core/errors.js';
import { createPacer } from '../core/pacer.js';
import { reason } from './lines.js';
import type { ObservedEntry } from './observed.js';

const HEAD = '{"kind":"tidegate-observed","v":1}';
const WRITE_LINES = 500;

/** Throws what the file system says. */
export async function saveObserved(path: string, entries: Iterable<ObservedEntry>): Promise<void> {
  const draft = `${path}.${process.pid}.tmp`;
  await mkdir(dirname(path), { recursive: true });
  const out = createWriteStream(draft);
  try {
    await once(out, 'open');
    const pause = createPacer();
    let lines = [HEAD];
    let count = 0;
    for (const entry of entries) {
      lines.push(JSON.stringify(entry));
      count++;
      if (lines.length < WRITE_LINES) continue;
      if (!out.write(`${lines.join('\n')}\n`)) await once(out, 'drain');
      lines = [];
      await pause();
    }
    lines.push(JSON.stringify({ end: count }));
    out.end(`${lines.join('\n')}\n`);
    await once(out, 'close');
    await rename(draft, path);
  } catch (error) {
    out.destroy();
    await rm(draft, { force: true });
    throw error;
  }
}

/** Empty where there is no file. Throws STATE_UNREADABLE where there is one that cannot be believed. */
export async function loadObserved(path: string, max: number): Promise<ObservedEntry[]> {
  const entries: ObservedEntry[] = [];
  try {
    const pause = createPacer();
    let number = 0;
    let ended = false;
    for await (const line of createInterface({ input: createReadStream(path), crlfDelay: Infinity })) {
      number++;
      if (number === 1 && line !== HEAD) throw new Error('not a file of observed scores');
      if (number === 1) continue;
      ended = line === JSON.stringify({ end: number - 2 });
      if (ended) break;
      const entry = asObservedEntry(JSON.parse(line));
      if (entry === undefined) throw new Error(`line ${number} is damaged`);
      if (entries.length < max) entries.push(entry);
      await pause();
    }
    if (!ended) throw new Error('it is cut off');
    return entries;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return [];
    throw new Fault('STATE_UNREADABLE', { file: path, why: reason(error) }, error);
  }
}

/** The entry in a value of unknown origin (a line, a message), or undefined. */
export function asObservedEntry(value: unknown): ObservedEntry | undefined {
  if (!Array.isArray(value) || value.length !== 3) return undefined;
  const [key, score, atMs] = value as unknown[];
  if (typeof key !== 'string' || key.length === 0 || key.length > 64) return undefined;
  if (typeof score !== 'number' || !(score >= 0 && score <= 100)) return undefined;
  return typeof atMs === 'number' && Number.isFinite(atMs) ? [key, score, atMs] : undefined;
}
