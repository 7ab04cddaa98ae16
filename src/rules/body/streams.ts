/** Bodies that stream: multipart (fields judged wherever they stand, files only by file rules) and binary. */
import type { Finding } from '../../core/finding.js';
import type { Judge, RuleBook } from '../judge.js';
import { addContained } from './json-leaves.js';
import { malformed } from '../malformed.js';
import type { MultipartProblem } from './multipart.js';
import { addPairs } from './form.js';
import { createMultipartReader } from './multipart.js';
import type { Fields } from './whole.js';
import { addInWindows } from './windows.js';

export type StreamBody = Readonly<{
  write(chunk: Buffer): Iterator<void>;
  end(): Iterator<void>;
  problem(): Finding | undefined;
}>;

export type BodyWork = Readonly<{ book: RuleBook; judge: Judge; fields: Fields }>;

export type Parts = Readonly<{ boundary: string; formData: boolean }>;

export function openMultipart({ boundary, formData }: Parts, { book, judge, fields }: BodyWork): StreamBody {
  const { config } = book;
  const scanFile = createFileScan({ book, judge, fields }, 'file');
  const scanOpaque = createFileScan({ book, judge, fields }, 'body');
  const scanDecoded = createFileScan({ book, judge, fields }, 'file');
  const decode = createBase64Pieces();
  let work: Iterator<void>[] = [];
  let problem: MultipartProblem | undefined;
  const reader = createMultipartReader(boundary, { ...config, formData }, {
    part: ({ name, filename }) => {
      if (name !== '') judge.add({ target: 'argname', name: '', text: name, encoding: 'percent' });
      if (filename !== undefined)
        judge.add({ target: 'filename', name, text: filename, encoding: 'percent' });
    },
    field: ({ name }, value) => {
      const text = value.toString('latin1');
      fields.set(name, text);
      work.push(addInWindows(judge, { target: 'multipart', name, text, encoding: 'none' }, config));
      addContained(judge, { target: 'multipart', name, text });
    },
    file: ({ name, base64, opaque }, piece, ended) => {
      work.push((opaque ? scanOpaque : scanFile)(piece, ended, name));
      if (base64) work.push(scanDecoded(decode(piece, ended), ended, name));
    },
  });
  function* drain(found: MultipartProblem | undefined): Generator<void> {
    problem ??= found;
    const steps = work;
    work = [];
    for (const each of steps) while (each.next().done !== true) yield;
  }
  return {
    // A large chunk is read in pieces, so that one turn never takes long.
    *write(chunk) {
      for (let from = 0; from < chunk.length && problem === undefined; from += config.windowBytes) {
        yield* drain(reader.write(chunk.subarray(from, from + config.windowBytes)));
      }
    },
    end: () => drain(problem ?? reader.end()),
    problem: () =>
      problem === undefined ? undefined : malformed(idOf(problem), problem.status, problem.why),
  };
}

function idOf({ status }: MultipartProblem): string {
  return status === 413
    ? 'MULTIPART-TOO-LARGE'
    : status === 415
      ? 'MULTIPART-ENCODING'
      : 'MULTIPART-MALFORMED';
}

/** Not text: file rules over all of it, and the printable runs in it as raw text. */
export function openBinary(packed: boolean, work: BodyWork): StreamBody {
  const scan = createFileScan(work, packed ? 'packed' : 'body');
  const { windowBytes } = work.book.config;
  return {
    *write(chunk) {
      for (let from = 0; from < chunk.length; from += windowBytes)
        yield* scan(chunk.subarray(from, from + windowBytes), false, '');
    },
    end: () => scan(Buffer.alloc(0), true, ''),
    problem: () => undefined,
  };
}

type FileScan = (piece: Buffer, ended: boolean, name: string) => Generator<void>;

const PRINTABLE_RUN = /[\t\x20-\x7e]{32,}/g;
const PACKED_RUN = /[\t\x20-\x7e]{6,}/g;

function createFileScan({ book, judge }: BodyWork, what: 'file' | 'body' | 'packed'): FileScan {
  const { windowBytes, overlapBytes } = book.config;
  let tail = '';
  let fresh = 0;
  return function* scan(piece, ended, name) {
    tail += piece.toString('latin1');
    fresh += piece.length;
    if (fresh > 0 && (ended || fresh >= windowBytes - overlapBytes)) {
      if (book.kinds.file.set.size > 0) judge.add({ target: 'file', name, text: tail, encoding: 'none' });
      if (what !== 'file') {
        for (const [run] of tail.matchAll(what === 'packed' ? PACKED_RUN : PRINTABLE_RUN))
          judge.add({ target: 'raw', name: '', text: run, encoding: 'none' });
      }
      tail = tail.slice(-overlapBytes);
      fresh = 0;
      yield;
    }
    if (ended) tail = '';
  };
}

const CODED_RUN = /[\t\r\n\x20-\x7e]{12,}/g;

/**
 * The bytes of a compressed body for an origin that takes them as they are: text stands in the names of a
 * gzip header, and in blocks that are stored. Each run of text is read as text, as lines and as pairs.
 */
export function openCoded({ book, judge }: BodyWork): StreamBody {
  const { windowBytes, overlapBytes } = book.config;
  let tail = '';
  let fresh = 0;
  function* look(): Generator<void> {
    for (const [run] of tail.matchAll(CODED_RUN)) {
      judge.add({ target: 'raw', name: '', text: run, encoding: 'none' });
      for (const line of run.split(/[\r\n]+/)) {
        if (line.length < run.length) judge.add({ target: 'raw', name: '', text: line, encoding: 'none' });
        if (line.includes('=')) addPairs(judge, line, 'form');
      }
      yield;
    }
    tail = tail.slice(-overlapBytes);
    fresh = 0;
  }
  return {
    *write(chunk) {
      for (let from = 0; from < chunk.length; from += windowBytes) {
        const piece = chunk.subarray(from, from + windowBytes);
        tail += piece.toString('latin1');
        fresh += piece.length;
        if (fresh >= windowBytes - overlapBytes) yield* look();
      }
    },
    *end() {
      if (fresh > 0) yield* look();
    },
    problem: () => undefined,
  };
}

/** Base64 in pieces: what is left of a group of four waits for the next. */
function createBase64Pieces(): (piece: Buffer, ended: boolean) => Buffer {
  let rest = '';
  return (piece, ended) => {
    const text = rest + piece.toString('latin1').replace(/[^A-Za-z0-9+/_-]/g, '');
    const whole = ended ? text.length : text.length - (text.length % 4);
    rest = ended ? '' : text.slice(whole);
    return Buffer.from(text.slice(0, whole), 'base64');
  };
}
