/** Lines of a log, whole or compressed, each bounded; what is longer is thrown away and told. */
import { createReadStream } from 'node:fs';
import type { Readable } from 'node:stream';
import { createGunzip } from 'node:zlib';
import { Fault } from '../core/errors.js';

const LINE_MAX = 1024 * 1024;

/** One line without its end, or that it was too long. */
export type Line = string | 'too-large';

/** `file`: a path, `.gz` or not, or `-` for standard input. Throws Fault REPLAY_UNREADABLE. */
export async function* linesOf(file: string): AsyncGenerator<Line, void> {
  const source = file === '-' ? process.stdin : createReadStream(file);
  const stream = file.endsWith('.gz') ? source.pipe(createGunzip()) : source;
  // An error of the file does not go through the pipe by itself.
  if (stream !== source) source.once('error', (error: Error) => stream.destroy(error));
  try {
    yield* split(stream);
  } catch (error) {
    const why = error instanceof Error ? error.message : String(error);
    throw new Fault('REPLAY_UNREADABLE', { from: file, why }, error);
  } finally {
    source.destroy();
  }
}

const LF = 0x0a;

export async function* split(
  stream: Readable | AsyncIterable<Buffer>,
  max = LINE_MAX,
): AsyncGenerator<Line, void> {
  let held: Buffer[] = [];
  let bytes = 0;
  let isLong = false;
  const keep = (piece: Buffer): void => {
    bytes += piece.length;
    if (bytes > max) {
      isLong = true;
      held = [];
    } else if (piece.length > 0) held.push(piece);
  };
  const line = (): Line => {
    const text = isLong ? 'too-large' : Buffer.concat(held).toString('utf8').replace(/\r$/, '');
    held = [];
    bytes = 0;
    isLong = false;
    return text;
  };
  for await (const part of stream as AsyncIterable<Buffer>) {
    let from = 0;
    for (let end = part.indexOf(LF); end >= 0; end = part.indexOf(LF, from)) {
      keep(part.subarray(from, end));
      yield line();
      from = end + 1;
    }
    keep(part.subarray(from));
  }
  if (bytes > 0) yield line();
}
