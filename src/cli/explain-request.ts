/**
 * The request to explain, from curl-like flags or from raw HTTP/1.1 text. Strings hold bytes as Latin-1 code
 * points, as they do in the proxy. Multipart bodies come out as curl builds them, with a fixed boundary.
 */
import { Fault } from '../core/errors.js';

export type ExplainRequest = Readonly<{
  method: string;
  /** As it would stand in the request line. */
  target: string;
  httpVersion: string;
  rawHeaders: readonly string[];
  scheme: 'http' | 'https';
  body: Buffer;
}>;

/** Flags as curl spells them. Text is UTF-8 as typed. */
export type CurlFlags = Readonly<{
  url: string;
  method?: string;
  /** `Name: value`; `Name;` sends it empty, `Name:` leaves a default one out. */
  headers: readonly string[];
  /** Joined with `&`, in order. */
  data: readonly Buffer[];
  forms: readonly Readonly<{ name: string; value: Buffer; fileName?: string }>[];
  userAgent?: string;
  cookie?: string;
}>;

const BOUNDARY = '------------------------7469646567617465';
const AGENT = 'curl/8.5.0';

/** Builds the request that curl would send. Throws Fault EXPLAIN_INPUT. */
export function fromFlags(flags: CurlFlags): ExplainRequest {
  const { scheme, host, target } = splitUrl(flags.url);
  const own = new Map<string, string | undefined>();
  const given: string[] = [];
  for (const text of flags.headers) {
    const parts = /^([^:;]+)(?:(;)\s*$|:\s*([^]*?)\s*$)/.exec(text);
    if (parts === null) throw new Fault('EXPLAIN_INPUT', { why: `-H "${text}" is not "Name: value"` });
    const [, name, empty, value] = parts;
    if (name === undefined) continue;
    own.set(name.toLowerCase(), value);
    if (empty !== undefined || value !== '') given.push(name, latin1(value ?? ''));
  }
  const { body, type } = bodyOf(flags);
  const rawHeaders: string[] = [];
  const add = (name: string, value: string | undefined): void => {
    if (value !== undefined && !own.has(name.toLowerCase())) rawHeaders.push(name, latin1(value));
  };
  add('Host', host);
  add('User-Agent', flags.userAgent ?? AGENT);
  add('Accept', '*/*');
  add('Cookie', flags.cookie);
  rawHeaders.push(...given);
  add('Content-Type', type);
  if (type !== undefined) add('Content-Length', String(body.length));
  const method = flags.method ?? (type === undefined ? 'GET' : 'POST');
  return { method, target: latin1(target), httpVersion: '1.1', rawHeaders, scheme, body };
}

function splitUrl(url: string): { scheme: 'http' | 'https'; host: string; target: string } {
  // Not parsed by URL, which would tidy away what the gate is meant to see (`/a/../b`, raw quotes).
  const parts = /^(?:(https?):\/\/)?([^/?#]+)([^#]*)/i.exec(url);
  if (parts === null) throw new Fault('EXPLAIN_INPUT', { why: `"${url}" is not a URL` });
  const rest = (parts[3] ?? '').replace(/[ ]/g, '%20');
  return {
    scheme: parts[1]?.toLowerCase() === 'https' ? 'https' : 'http',
    host: (parts[2] ?? '').replace(/^.*@/, ''),
    target: rest.startsWith('/') ? rest : `/${rest}`,
  };
}

function bodyOf({ data, forms }: CurlFlags): { body: Buffer; type: string | undefined } {
  if (data.length > 0 && forms.length > 0)
    throw new Fault('EXPLAIN_INPUT', { why: '-d and -F do not go together' });
  if (data.length > 0) {
    const joined = data.flatMap((piece, index) => (index === 0 ? [piece] : [Buffer.from('&'), piece]));
    return { body: Buffer.concat(joined), type: 'application/x-www-form-urlencoded' };
  }
  if (forms.length === 0) return { body: Buffer.alloc(0), type: undefined };
  const parts = forms.flatMap(({ name, value, fileName }) => {
    const file =
      fileName === undefined ? '' : `; filename="${fileName}"\r\nContent-Type: application/octet-stream`;
    const head = `--${BOUNDARY}\r\nContent-Disposition: form-data; name="${name}"${file}\r\n\r\n`;
    return [Buffer.from(head), value, Buffer.from('\r\n')];
  });
  const body = Buffer.concat([...parts, Buffer.from(`--${BOUNDARY}--\r\n`)]);
  return { body, type: `multipart/form-data; boundary=${BOUNDARY}` };
}

function latin1(text: string): string {
  return Buffer.from(text, 'utf8').toString('latin1');
}

/**
 * Reads raw HTTP/1.1 text; lines may end in LF alone, since editors write them so. A chunked body is put
 * together; everything else after the empty line is the body. Throws Fault EXPLAIN_INPUT.
 */
export function fromRaw(bytes: Buffer): ExplainRequest {
  const text = bytes.toString('latin1').replace(/^(?:\r?\n)+/, '');
  const end = /\r?\n\r?\n/.exec(text);
  const head = end === null ? text.replace(/\r?\n$/, '') : text.slice(0, end.index);
  const rest = end === null ? '' : text.slice(end.index + end[0].length);
  const [start = '', ...fields] = head.split(/\r?\n/);
  const line = /^(\S+) (\S[^]*?)(?: HTTP\/(1\.[01]))?$/.exec(start);
  if (line === null)
    throw new Fault('EXPLAIN_INPUT', { why: `"${start.slice(0, 80)}" is not a request line` });
  const rawHeaders = fields.flatMap((field) => {
    const colon = field.indexOf(':');
    if (colon < 1) throw new Fault('EXPLAIN_INPUT', { why: `"${field.slice(0, 80)}" is not a header field` });
    return [field.slice(0, colon), field.slice(colon + 1).replace(/^[ \t]+|[ \t]+$/g, '')];
  });
  const isChunked = rawHeaders.some(
    (part, index) =>
      index % 2 === 1 && /^transfer-encoding$/i.test(rawHeaders[index - 1]!) && /chunked/i.test(part),
  );
  const body = Buffer.from(isChunked ? joinChunks(rest) : rest, 'latin1');
  return {
    method: line[1]!,
    target: line[2]!,
    httpVersion: line[3] ?? '1.1',
    rawHeaders,
    scheme: 'http',
    body,
  };
}

function joinChunks(text: string): string {
  let joined = '';
  for (let at = 0; at < text.length;) {
    const size = /^([0-9a-f]{1,8})[^\n]*\n/i.exec(text.slice(at, at + 4096));
    if (size === null) throw new Fault('EXPLAIN_INPUT', { why: `no chunk size at byte ${at} of the body` });
    const length = parseInt(size[1]!, 16);
    if (length === 0) break;
    at += size[0].length;
    joined += text.slice(at, at + length);
    at += length;
    at += /^\r?\n/.exec(text.slice(at, at + 2))?.[0].length ?? 0;
  }
  return joined;
}
