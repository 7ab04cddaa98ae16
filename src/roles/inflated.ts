/**
 * What a .gz file holds, up to where it is cut off or damaged: all that can be read is handed out before the
 * error is. A decoder keeps what it made in the step that fails, so that step is done again byte by byte.
 */
import { createReadStream } from 'node:fs';
import { createGunzip } from 'node:zlib';

const STEP = 16 * 1024;

/** The place in the file of the step that failed, and why. */
class Broken extends Error {
  constructor(
    why: string,
    readonly at: number,
  ) {
    super(why);
  }
}

/** Throws what the file system says, or where and why the data ends, once all before that is handed out. */
export async function* inflated(file: string): AsyncGenerator<Buffer, void> {
  let given = 0;
  try {
    for await (const piece of inflate(file, Infinity)) {
      given += piece.length;
      yield piece;
    }
  } catch (error) {
    if (!(error instanceof Broken)) throw error;
    const where = yield* beyond(file, given, error.at);
    throw new Error(`${error.message} at byte ${where}`, { cause: error });
  }
}

/** The pieces after so many bytes, with small steps from `at` on; answers where it ends. */
async function* beyond(file: string, given: number, at: number): AsyncGenerator<Buffer, number> {
  let skip = given;
  try {
    for await (const piece of inflate(file, at)) {
      if (piece.length > skip) yield piece.subarray(skip);
      skip = Math.max(0, skip - piece.length);
    }
  } catch (error) {
    if (error instanceof Broken) return error.at;
    throw error;
  }
  return at;
}

async function* inflate(file: string, smallFrom: number): AsyncGenerator<Buffer, void> {
  const gunzip = createGunzip();
  let made: Buffer[] = [];
  let at = 0;
  gunzip.on('data', (piece: Buffer) => void made.push(piece));
  const failed = new Promise<never>((_, reject) =>
    gunzip.once('error', (error) => reject(new Broken(error.message, at))),
  );
  failed.catch(() => undefined);
  const ended = new Promise<void>((resolve) => gunzip.once('end', resolve));
  const step = (bytes: Buffer): Promise<unknown> =>
    Promise.race([failed, new Promise((resolve) => gunzip.write(bytes, resolve))]);
  try {
    for await (const chunk of createReadStream(file, { highWaterMark: STEP }) as AsyncIterable<Buffer>) {
      const size = at + chunk.length > smallFrom ? 1 : chunk.length;
      for (let from = 0; from < chunk.length; from += size, at += size) {
        await step(chunk.subarray(from, from + size));
        const pieces = made;
        made = [];
        yield* pieces;
      }
    }
    gunzip.end();
    await Promise.race([failed, ended]);
    yield* made;
  } finally {
    gunzip.destroy();
  }
}
