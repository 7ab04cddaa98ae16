/** Bodies that stream: multipart (fields judged wherever they stand, files only by file rules) and binary. */
import type { Finding } from '../../core/finding.js';
import type { Judge, RuleBook } from '../judge.js';
import { addNestedJson } from './json-leaves.js';
import { malformed } from './malformed.js';
import type { MultipartProblem } from './multipart.js';
import { createMultipartReader } from './multipart.js';
import type { Fields } from './whole.js';
import { addInWindows } from './windows.js';

export type StreamBody = Readonly<{
  write(chunk: Buffer): Iterator<void>;
  end(): Iterator<void>;
  problem(): Finding | undefined;
}>;

export type BodyWork = Readonly<{ book: RuleBook; judge: Judge; fields: Fields }>;

export function openMultipart(boundary: string, { book, judge, fields }: BodyWork): StreamBody {
  const { config } = book;
  const scanFile = createFileScan({ book, judge, fields }, 'file');
  let work: Iterator<void>[] = [];
  let problem: MultipartProblem | undefined;
  const reader = createMultipartReader(boundary, config, {
    part: ({ name, filename }) => {
      judge.add({ target: 'argname', name: '', text: name, encoding: 'percent' });
      if (filename !== undefined)
        judge.add({ target: 'filename', name, text: filename, encoding: 'percent' });
    },
    field: ({ name }, value) => {
      const text = value.toString('latin1');
      fields.set(name, text);
      work.push(addInWindows(judge, { target: 'multipart', name, text, encoding: 'none' }, config));
      addNestedJson(judge, { target: 'multipart', name, text });
    },
    file: ({ name }, piece, ended) => {
      work.push(scanFile(piece, ended, name));
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
export function openBinary(work: BodyWork): StreamBody {
  const scan = createFileScan(work, 'body');
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

function createFileScan({ book, judge }: BodyWork, what: 'file' | 'body'): FileScan {
  const { windowBytes, overlapBytes } = book.config;
  let tail = '';
  let fresh = 0;
  return function* scan(piece, ended, name) {
    tail += piece.toString('latin1');
    fresh += piece.length;
    if (fresh > 0 && (ended || fresh >= windowBytes - overlapBytes)) {
      if (book.kinds.file.set.size > 0) judge.add({ target: 'file', name, text: tail, encoding: 'none' });
      if (what === 'body') {
        for (const [run] of tail.matchAll(PRINTABLE_RUN))
          judge.add({ target: 'raw', name: '', text: run, encoding: 'none' });
      }
      tail = tail.slice(-overlapBytes);
      fresh = 0;
      yield;
    }
    if (ended) tail = '';
  };
}
