/**
 * Reads HTTP/1.1 messages from raw bytes without repairing anything: heads, bodies by their framing,
 * trailers.
 */
export type Pair = readonly [name: string, value: string];

export type Framing =
  { kind: 'none' } | { kind: 'length'; bytes: number } | { kind: 'chunked' } | { kind: 'close' };

export type Head = { startLine: string; headers: Pair[]; bytes: number };

/** The head at the start of `buffer`, or undefined while its empty line has not arrived. */
export function readHead(buffer: Buffer): Head | undefined {
  const end = buffer.indexOf('\r\n\r\n');
  if (end < 0) return undefined;
  const lines = buffer.toString('latin1', 0, end).split('\r\n');
  return { startLine: lines[0] ?? '', headers: lines.slice(1).map(splitField), bytes: end + 4 };
}

function splitField(line: string): Pair {
  const colon = line.indexOf(':');
  return colon < 0 ? [line, ''] : [line.slice(0, colon), line.slice(colon + 1).trim()];
}

/** The first value of a field, by lower-case name. */
export function valueOf(headers: readonly Pair[], name: string): string | undefined {
  return headers.find(([field]) => field.toLowerCase() === name)?.[1];
}

export function valuesOf(headers: readonly Pair[], name: string): string[] {
  return headers.filter(([field]) => field.toLowerCase() === name).map(([, value]) => value);
}

export function framingOf(headers: readonly Pair[], otherwise: Framing): Framing {
  if (/chunked/i.test(valueOf(headers, 'transfer-encoding') ?? '')) return { kind: 'chunked' };
  const length = valueOf(headers, 'content-length');
  return length === undefined ? otherwise : { kind: 'length', bytes: Number(length) };
}

/**
 * Takes a body apart as it arrives. `push` gives back what belongs to the next message once `done` is true.
 */
export type BodyReader = { push(bytes: Buffer): Buffer; done: boolean; trailers: Pair[] };

export function bodyReader(framing: Framing, sink: (part: Buffer) => void): BodyReader {
  if (framing.kind === 'chunked') return chunkedReader(sink);
  let left = framing.kind === 'length' ? framing.bytes : framing.kind === 'none' ? 0 : Infinity;
  const reader: BodyReader = {
    done: left === 0,
    trailers: [],
    push(bytes) {
      const mine = bytes.subarray(0, Math.min(left, bytes.length));
      left -= mine.length;
      if (mine.length > 0) sink(mine);
      reader.done = left === 0;
      return bytes.subarray(mine.length);
    },
  };
  return reader;
}

function chunkedReader(sink: (part: Buffer) => void): BodyReader {
  let rest: Buffer = Buffer.alloc(0);
  let left = 0;
  let state: 'size' | 'data' | 'data-end' | 'trailers' = 'size';
  /** One step; false when more bytes are needed. */
  const step = (): boolean => {
    if (state === 'data') {
      const part = rest.subarray(0, Math.min(left, rest.length));
      if (part.length > 0) sink(part);
      left -= part.length;
      rest = rest.subarray(part.length);
      if (left > 0) return false;
      state = 'data-end';
      return true;
    }
    const end = rest.indexOf('\r\n');
    if (end < 0) return false;
    const line = rest.toString('latin1', 0, end);
    rest = rest.subarray(end + 2);
    if (state === 'size') {
      left = Number.parseInt(line, 16);
      state = left > 0 ? 'data' : 'trailers';
    } else if (state === 'data-end') state = 'size';
    else if (line === '') reader.done = true;
    else reader.trailers.push(splitField(line));
    return !reader.done;
  };
  const reader: BodyReader = {
    done: false,
    trailers: [],
    push(bytes) {
      rest = rest.length === 0 ? bytes : Buffer.concat([rest, bytes]);
      while (!reader.done && step());
      return reader.done ? rest : Buffer.alloc(0);
    },
  };
  return reader;
}

/** Body bytes in chunked coding, `size` bytes a chunk. */
export function chunked(body: Buffer | string, size = 1024, trailers = ''): Buffer {
  const whole = Buffer.from(body as string, 'latin1');
  const parts: Buffer[] = [];
  for (let at = 0; at < whole.length; at += size) {
    const part = whole.subarray(at, at + size);
    parts.push(Buffer.from(`${part.length.toString(16)}\r\n`), part, Buffer.from('\r\n'));
  }
  return Buffer.concat([...parts, Buffer.from(`0\r\n${trailers}\r\n`)]);
}
