/**
 * A streaming multipart/form-data reader (RFC 7578, RFC 2046 section 5.1). Fields are handed out whole and
 * bounded, files as they come. Anything that two readers could split differently is a problem, not a guess.
 */
import type { PartHeader, PartProblem } from './part-header.js';
import { readPartHeader } from './part-header.js';

export type MultipartBounds = Readonly<{
  fieldBytesMax: number;
  multipartParts: number;
  /** The parts are those of a form. */
  formData: boolean;
}>;

export type MultipartSink = Readonly<{
  part(header: PartHeader): void;
  field(header: PartHeader, value: Buffer): void;
  /** A piece of a file; `ended` with the last, which may be empty. */
  file(header: PartHeader, piece: Buffer, ended: boolean): void;
}>;

export type MultipartProblem = Readonly<{ status: 400 | 413 | 415; why: string }>;

export type MultipartReader = Readonly<{
  write(chunk: Buffer): MultipartProblem | undefined;
  end(): MultipartProblem | undefined;
}>;

const HEADER_BYTES_MAX = 8192;
const EPILOGUE_BYTES_MAX = 1024;
const HEADER_END = Buffer.from('\r\n\r\n');
const CRLF = Buffer.from('\r\n');

type State = 'start' | 'after-boundary' | 'header' | 'body' | 'epilogue';

export function createMultipartReader(
  boundary: string,
  bounds: MultipartBounds,
  sink: MultipartSink,
): MultipartReader {
  const delimiter = Buffer.from(`\r\n--${boundary}`, 'latin1');
  let held: Buffer = CRLF;
  let state: State = 'start';
  let header: PartHeader | undefined;
  let parts = 0;
  let fieldPieces: Buffer[] = [];
  let fieldBytes = 0;
  let epilogue = 0;

  const give = (piece: Buffer, ended: boolean): MultipartProblem | undefined => {
    if (header === undefined) return undefined;
    if (header.filename !== undefined && (piece.length > 0 || ended)) sink.file(header, piece, ended);
    if (header.filename !== undefined && !header.both) return undefined;
    fieldBytes += piece.length;
    if (fieldBytes > bounds.fieldBytesMax) return { status: 413, why: 'a field is too long' };
    if (piece.length > 0) fieldPieces.push(Buffer.from(piece));
    if (!ended) return undefined;
    sink.field(header, Buffer.concat(fieldPieces));
    fieldPieces = [];
    fieldBytes = 0;
    return undefined;
  };

  const steps: Record<State, () => MultipartProblem | 'more' | undefined> = {
    start: () => {
      // A leading CRLF was put in front, so that the first boundary reads like the others; one more may
      // follow.
      if (held.length < delimiter.length + 2) return 'more';
      const at = held.indexOf(delimiter);
      if (at !== 0 && at !== 2) return { status: 400, why: 'the body does not begin with its boundary' };
      held = held.subarray(at + delimiter.length);
      state = 'after-boundary';
      return undefined;
    },
    'after-boundary': () => {
      if (held.length < 2) return 'more';
      const two = held.toString('latin1', 0, 2);
      if (two !== '\r\n' && two !== '--') return { status: 400, why: 'a boundary line goes on' };
      state = two === '--' ? 'epilogue' : 'header';
      held = held.subarray(2);
      return undefined;
    },
    header: () => {
      // A part of another multipart than a form may have no header at all.
      const bare = !bounds.formData && held.indexOf(CRLF) === 0;
      const end = bare ? 0 : held.indexOf(HEADER_END);
      if (end < 0)
        return held.length > HEADER_BYTES_MAX ? { status: 400, why: 'a part header is too long' } : 'more';
      if (end > HEADER_BYTES_MAX) return { status: 400, why: 'a part header is too long' };
      if (++parts > bounds.multipartParts) return { status: 413, why: 'too many parts' };
      const read: PartHeader | PartProblem = readPartHeader(held.toString('latin1', 0, end), bounds.formData);
      if ('status' in read) return read;
      header = read;
      sink.part(read);
      // The CRLF that ends the header stays, as it may begin the delimiter of an empty part.
      if (!bare) held = held.subarray(end + 2);
      if (held.indexOf(delimiter) === 0) return closePart(0);
      held = held.subarray(2);
      state = 'body';
      return undefined;
    },
    body: () => {
      const at = held.indexOf(delimiter);
      if (at >= 0) return closePart(at);
      const safe = held.length - delimiter.length;
      if (safe <= 0) return 'more';
      const problem = give(held.subarray(0, safe), false);
      held = held.subarray(safe);
      return problem ?? 'more';
    },
    epilogue: () => {
      epilogue += held.length;
      held = held.subarray(held.length);
      return epilogue > EPILOGUE_BYTES_MAX ? { status: 400, why: 'bytes follow the last boundary' } : 'more';
    },
  };
  const closePart = (at: number): MultipartProblem | undefined => {
    const problem = give(held.subarray(0, at), true);
    held = held.subarray(at + delimiter.length);
    state = 'after-boundary';
    header = undefined;
    return problem;
  };
  return {
    write: (chunk) => {
      held = held.length === 0 ? chunk : Buffer.concat([held, chunk]);
      for (;;) {
        const answer = steps[state]();
        if (answer === 'more') break;
        if (answer !== undefined) return answer;
      }
      return undefined;
    },
    end: () =>
      state === 'epilogue' ? undefined : { status: 400, why: 'the body ends before its last boundary' },
  };
}
