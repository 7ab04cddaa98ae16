/**
 * Observed scores on disk, one JSON line each; a file that is cut off or has a damaged line is not believed.
 */
import { Fault } from '../core/errors.js';
import { readStateFile, writeStateFile } from '../core/state-file.js';
import { reason } from './lines.js';
import type { ObservedEntry } from './observed.js';

const HEAD = { kind: 'tidegate-observed', v: 1 };

/** Throws what the file system says. */
export function saveObserved(path: string, entries: Iterable<ObservedEntry>): Promise<void> {
  return writeStateFile(path, { head: HEAD, entries, mode: 0o666 });
}

/** Empty where there is no file. Throws STATE_UNREADABLE where there is one that cannot be believed. */
export async function loadObserved(path: string, max: number): Promise<ObservedEntry[]> {
  const entries: ObservedEntry[] = [];
  try {
    await readStateFile(path, {
      head(value) {
        if (JSON.stringify(value) !== JSON.stringify(HEAD)) throw new Error('not a file of observed scores');
      },
      take(value) {
        const entry = asObservedEntry(value);
        if (entry !== undefined && entries.length < max) entries.push(entry);
        return entry !== undefined;
      },
    });
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
