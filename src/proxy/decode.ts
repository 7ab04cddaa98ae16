/**
 * Undoes Content-Encoding for inspection (the original bytes are forwarded). gzip, x-gzip, deflate (zlib or
 * raw) and br; stacked or unknown codings are refused. Output is capped in size and ratio while it is made,
 * so a bomb stops growing where the cap is; zlib works off the event loop. Nothing may follow the stream's
 * end: one reader drops it and another takes it.
 */
import zlib from 'node:zlib';
import type { ProxyConfig } from './config.js';

export type DecodeProblem = Readonly<{ problem: string; status: 400 | 413 | 415; id: string }>;

export type Decoder = {
  /** Decoded bytes that this input brought, or why it cannot go on. */
  write(chunk: Buffer): Promise<Buffer | DecodeProblem>;
  end(): Promise<Buffer | DecodeProblem>;
  close(): void;
};

export type DecodeCaps = Readonly<{
  outputBytesMax: number;
  ratioMax: number;
  /** The longest that one piece may take, milliseconds. */
  waitMs: number;
}>;

export function decodeCaps({ body, timeouts }: Pick<ProxyConfig, 'body' | 'timeouts'>): DecodeCaps {
  const outputBytesMax = Math.max(body.structured, body.judgedWhole);
  return { outputBytesMax, ratioMax: body.decodedRatio, waitMs: timeouts.body };
}

/** Below this much output the ratio says nothing: small texts compress a thousandfold honestly. */
const RATIO_FREE_BYTES = 1024 * 1024;
const CODINGS = new Set(['gzip', 'x-gzip', 'deflate', 'br']);

const TRAILING: DecodeProblem = {
  id: 'CODING-TRAILING',
  status: 400,
  problem: 'bytes follow the end of the compressed body',
};
const SLOW: DecodeProblem = { id: 'CODING-SLOW', status: 400, problem: 'decoding the body takes too long' };

/** Undefined: nothing to undo. */
export function openDecoder(
  coding: string | undefined,
  caps: DecodeCaps,
): Decoder | DecodeProblem | undefined {
  const name = coding?.trim().toLowerCase();
  if (name === undefined || name === '' || name === 'identity') return undefined;
  if (!CODINGS.has(name))
    return { id: 'CODING-UNKNOWN', status: 415, problem: 'a Content-Encoding that cannot be undone' };
  return streamDecoder(name, caps);
}

function streamDecoder(name: string, caps: DecodeCaps): Decoder {
  let stream: zlib.Gunzip | zlib.Inflate | zlib.InflateRaw | zlib.BrotliDecompress | undefined;
  let bytesIn = 0;
  let bytesOut = 0;
  let collected: Buffer[] = [];
  let failed: DecodeProblem | undefined;
  let wake: (() => void) | undefined;
  let ended = false;

  const fail = (problem: DecodeProblem): void => {
    failed ??= problem;
    stream?.destroy();
    wake?.();
  };
  const onData = (chunk: Buffer): void => {
    bytesOut += chunk.length;
    const tooMuch = bytesOut > caps.outputBytesMax;
    if (tooMuch || (bytesOut > RATIO_FREE_BYTES && bytesOut > bytesIn * caps.ratioMax)) {
      fail({ id: 'CODING-BOMB', status: 413, problem: 'the compressed body grows beyond its cap' });
      return;
    }
    collected.push(chunk);
  };
  const open = (first: Buffer) => {
    const made = create(name, first);
    made.on('data', onData);
    const broken = (): void =>
      fail({ id: 'CODING-BROKEN', status: 400, problem: `the body is not valid ${name}` });
    made.on('error', broken);
    // zlib never calls back for a piece that goes on after the stream's end.
    made.on('end', () => {
      ended = true;
      if (made.bytesWritten < bytesIn) fail(TRAILING);
      wake?.();
    });
    made.on('close', () => (ended ? undefined : broken()));
    return made;
  };
  const take = (): Buffer | DecodeProblem => {
    if (failed !== undefined) return failed;
    const out = collected.length === 1 ? collected[0]! : Buffer.concat(collected);
    collected = [];
    return out;
  };
  const settled = (act: (done: () => void) => void): Promise<Buffer | DecodeProblem> =>
    failed !== undefined
      ? Promise.resolve(failed)
      : new Promise((resolve) => {
          const late = setTimeout(() => fail(SLOW), caps.waitMs);
          wake = () => {
            clearTimeout(late);
            resolve(take());
          };
          act(wake);
        });

  return {
    write(chunk) {
      bytesIn += chunk.length;
      if (chunk.length === 0) return Promise.resolve(take());
      if (ended) fail(TRAILING);
      stream ??= open(chunk);
      const into = stream;
      return settled((done) => into.write(chunk, () => done()));
    },
    end() {
      if (stream === undefined || ended) return Promise.resolve(take());
      const into = stream;
      // Its `end` or its `error` answers.
      return settled(() => into.end());
    },
    close() {
      ended = true;
      stream?.destroy();
      wake?.();
    },
  };
}

function create(name: string, first: Buffer) {
  if (name === 'br') return zlib.createBrotliDecompress();
  if (name !== 'deflate') return zlib.createGunzip();
  // RFC 9110 means zlib; many senders mean raw. A zlib header has method 8 and a checksum over two bytes.
  const zlibHeader =
    (first[0]! & 0x0f) === 8 && (first.length < 2 || (first[0]! * 256 + first[1]!) % 31 === 0);
  return zlibHeader ? zlib.createInflate() : zlib.createInflateRaw();
}
