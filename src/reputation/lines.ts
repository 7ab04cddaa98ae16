/**
 * Text of a feed, streamed: chunks and lines under size caps, with the event loop let go every few
 * milliseconds. An HTML page instead of a list (an error page with status 200) is refused at its first
 * character.
 */
import { createReadStream } from 'node:fs';
import { Fault } from '../core/errors.js';
import { createPacer } from '../core/pacer.js';
import { FEED_BYTES_MAX } from './source.js';
import type { FeedFile } from './source.js';

const CHUNK_BYTES = 16 * 1024;
const LINE_MAX = 512;

/**
 * Chunks of a feed's file as Latin-1. Throws FEED_UNREADABLE, or FEED_IMPLAUSIBLE for HTML and oversize
 * files.
 */
export async function* feedChunks(file: FeedFile): AsyncGenerator<string> {
  const pause = createPacer();
  const stream = createReadStream(file.path, { encoding: 'latin1', highWaterMark: CHUNK_BYTES });
  let total = 0;
  let begun = false;
  try {
    for await (const chunk of stream as AsyncIterable<string>) {
      total += chunk.length;
      if (total > FEED_BYTES_MAX) throw implausible(file, `larger than ${FEED_BYTES_MAX >> 20} MB`);
      if (!begun) {
        const first = /[^\s\xef\xbb\xbf]/.exec(chunk)?.[0];
        begun = first !== undefined;
        if (first === '<') throw implausible(file, 'an HTML or XML page, not a list');
      }
      yield chunk;
      await pause();
    }
  } catch (error) {
    if (error instanceof Fault) throw error;
    throw unreadable(file, reason(error), error);
  }
  if (!begun && file.mayBeBlank !== true) throw implausible(file, 'empty');
}

/** Calls `take` with each line without its end; a line over 512 characters is handed over cut. */
export async function eachLine(file: FeedFile, take: (line: string, number: number) => void): Promise<void> {
  let rest = '';
  let number = 0;
  let first = true;
  for await (const chunk of feedChunks(file)) {
    const text = first && chunk.startsWith('\xef\xbb\xbf') ? chunk.slice(3) : rest + chunk;
    first = false;
    let from = 0;
    for (let end = text.indexOf('\n'); end >= 0; end = text.indexOf('\n', from)) {
      take(text.slice(from, Math.min(end, from + LINE_MAX)), ++number);
      from = end + 1;
    }
    // What is over the cap is dropped now: an endless line must not pile up.
    rest = text.slice(from, from + LINE_MAX);
  }
  if (rest !== '') take(rest, ++number);
}

type Origin = Pick<FeedFile, 'feed' | 'from'>;

export function implausible({ feed, from }: Origin, why: string): Fault {
  return new Fault('FEED_IMPLAUSIBLE', { feed, from, why });
}

export function unreadable({ feed, from }: Origin, why: string, cause?: unknown): Fault {
  return new Fault('FEED_UNREADABLE', { feed, from, why }, cause);
}

export function reason(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
