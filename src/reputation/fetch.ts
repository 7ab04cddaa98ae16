/**
 * Fetches a feed's URL into a file, under a deadline for the whole answer and a size cap. Redirects are not
 * followed.
 */
import { createWriteStream } from 'node:fs';
import { Transform } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { implausible, reason, unreadable } from './lines.js';
import { FEED_BYTES_MAX } from './source.js';
import type { FeedFile } from './source.js';

export type Fetched = Readonly<{ changed: boolean; lastModified: string | undefined }>;

/**
 * Writes the answer to `file.path`. Throws FEED_UNREADABLE (network, status, deadline) or FEED_IMPLAUSIBLE
 * (size).
 */
export async function fetchFeed(
  file: FeedFile,
  { timeoutMs, since }: Readonly<{ timeoutMs: number; since: string | undefined }>,
): Promise<Fetched> {
  const condition = since === undefined ? {} : { 'if-modified-since': since };
  const headers = { 'user-agent': 'tidegate', accept: '*/*', ...condition };
  const cap = byteCap(file);
  try {
    // Loaded where a feed has a URL alone: the whole of undici is 8 MB.
    const { request } = await import('undici');
    const signal = AbortSignal.timeout(timeoutMs);
    const answer = await request(file.from, { headers, signal });
    if (answer.statusCode === 304) {
      await answer.body.dump();
      return { changed: false, lastModified: since };
    }
    if (answer.statusCode !== 200) {
      await answer.body.dump();
      throw new Error(`status ${answer.statusCode}`);
    }
    await pipeline(answer.body, cap.stream, createWriteStream(file.path), { signal });
    const modified = answer.headers['last-modified'];
    return { changed: true, lastModified: typeof modified === 'string' ? modified : undefined };
  } catch (error) {
    if (cap.reached()) throw implausible(file, `larger than ${FEED_BYTES_MAX >> 20} MB`);
    throw unreadable(file, reason(error), error);
  }
}

function byteCap(file: FeedFile) {
  let total = 0;
  const stream = new Transform({
    transform(chunk: Buffer, _encoding, done) {
      total += chunk.length;
      done(total > FEED_BYTES_MAX ? new Error(`${file.feed} is too large`) : null, chunk);
    },
  });
  return { stream, reached: () => total > FEED_BYTES_MAX };
}
