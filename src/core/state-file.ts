/**
 * State on disk, one JSON value a line between a head and a foot: written to a draft and renamed, so that a
 * crash leaves the old file or the new one; a file without its foot is cut off and not believed.
 */
import { once } from 'node:events';
import { createReadStream, createWriteStream } from 'node:fs';
import { mkdir, rename, rm } from 'node:fs/promises';
import { dirname } from 'node:path';
import { createInterface } from 'node:readline';
import { createPacer } from './pacer.js';

const WRITE_LINES = 500;

export type StateContent = Readonly<{
  head: unknown;
  entries: Iterable<unknown>;
  /** Permissions of the file. */
  mode: number;
}>;

/** Lets the event loop go on in between. Throws what the file system says; then no draft stays. */
export async function writeStateFile(path: string, { head, entries, mode }: StateContent): Promise<void> {
  const draft = `${path}.${process.pid}.tmp`;
  await mkdir(dirname(path), { recursive: true });
  const out = createWriteStream(draft, { mode });
  try {
    await once(out, 'open');
    const pause = createPacer();
    let lines = [JSON.stringify(head)];
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

export type StateReader = Readonly<{
  /** Throws where the file is of another kind. */
  head: (value: unknown) => void;
  /** False for a damaged entry. */
  take: (value: unknown) => boolean;
}>;

/** Throws what the file system says (ENOENT …), or why the file cannot be believed. */
export async function readStateFile(path: string, { head, take }: StateReader): Promise<void> {
  const pause = createPacer();
  let number = 0;
  let ended = false;
  for await (const line of createInterface({ input: createReadStream(path), crlfDelay: Infinity })) {
    number++;
    const value: unknown = JSON.parse(line);
    if (number === 1) head(value);
    else if (isEnd(value, number - 2)) ended = true;
    else if (ended || !take(value)) throw new Error(`line ${number} is damaged`);
    await pause();
  }
  if (!ended) throw new Error('it is cut off');
}

const isEnd = (value: unknown, count: number): boolean =>
  typeof value === 'object' && value !== null && 'end' in value && value.end === count;
