/** Lines of a log, whole or compressed, each bounded; what is longer is thrown away and told. */
import { createReadStream } from 'node:fs';
import type { Readable } from 'node:stream';
import { Fault } from '../core/errors.js';
import { inflated } from './inflated.js';

const LINE_MAX = 1024 * 1024;

/** One line without its end, or that it was too long. */
export type Line = string | 'too-large';

/**
 * `file`: a path, `.gz` or not, or `-` for standard input. Where it cannot be read to its end, `onCut` is told
 * why and how far it got. Throws Fault REPLAY_UNREADABLE where not even one line could be read.
 */
export async function* linesOf(file: string, onCut: (why: string) => void): AsyncGenerator<Line, void> {
  let lines = 0;
  try {
    for await (const line of split(openFile(file))) {
      lines++;
      yield line;
    }
  } catch (error) {
    const why = error instanceof Error ? error.message : String(error);
    if (lines === 0) throw new Fault('REPLAY_UNREADABLE', { from: file, why }, error);
    onCut(`${why}, after ${lines} lines`);
  }
}

function openFile(file: string): Readable | AsyncIterable<Buffer> {
  if (file === '-') return process.stdin;
  return file.endsWith('.gz') ? inflated(file) : createReadStream(file);
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
