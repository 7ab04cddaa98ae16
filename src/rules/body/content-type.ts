/**
 * What a body is, by its Content-Type (RFC 9110 section 8.3) and by its first bytes. Back ends guess where
 * the type is missing, mangled or given twice, so every reading that is plausible is taken.
 */
export type BodyKind = 'json' | 'form' | 'multipart' | 'text' | 'binary';

export type ContentType = Readonly<{
  kinds: ReadonlySet<BodyKind>;
  /** The boundary of a multipart type that can be read in one way only. */
  boundary: string | undefined;
  /** The header names multipart, so that the body must be read as such. */
  multipart: boolean;
  /** It is form-data: each part is a field or a file of a form. */
  formData: boolean;
  /** Values in a compact form between which short text stands: MessagePack, CBOR, Protocol Buffers. */
  packed: boolean;
  /** A charset in which plain text looks like something else. */
  charset: string | undefined;
}>;

const TYPE = /([a-z0-9!#$&^_.+*-]+)\/([a-z0-9!#$&^_.+*-]+)/gi;
const PACKED = /msgpack|cbor|protobuf|bson|avro|thrift|grpc|\bx-amf\b|ubjson/i;
const MULTIPART = /^multipart\/([a-z0-9-]{1,40})[ \t]*/i;
/** What stands unquoted is a token, and those characters of a boundary that no reader takes for its end. */
const PARAM = /^;[ \t]*([a-z0-9_-]{1,40})=(?:"([^"\\]{0,200})"|([!#$%&*+.^_`|~0-9a-z:/?=-]{1,200}))[ \t]*/i;
const CHARSET = /charset\s*=\s*["']?([a-z0-9_.:-]{1,40})/gi;
const KNOWN_CHARSET =
  /^(?:utf-?8|us-ascii|ascii|iso-8859-\d{1,2}|latin1|windows-125\d|gbk|gb2312|gb18030|big5|shift_jis|euc-(?:jp|kr)|koi8-r)$/i;
const MULTIPART_START = /^(?:\r?\n)?--[^\r\n]{1,200}\r?\nContent-(?:Disposition|Type)/i;
const FORM_START = /^[\w.%[\]+-]{1,100}=/;
const PROBE_BYTES = 1024;

const MEMO_MAX = 256;
const MEMO_CHARS = 128;
const memo = new Map<string, ContentType>();

/** The answer is shared by all requests with the same header. */
export function readContentType(header: string | undefined): ContentType {
  const text = header ?? '';
  const known = memo.get(text);
  if (known !== undefined) return known;
  const read = parseContentType(text);
  if (text.length > MEMO_CHARS) return read;
  if (memo.size >= MEMO_MAX) memo.clear();
  memo.set(text, read);
  return read;
}

function parseContentType(text: string): ContentType {
  const kinds = new Set<BodyKind>();
  for (const [, type = '', subtype = ''] of text.matchAll(TYPE)) {
    const kind = kindOf(type.toLowerCase(), subtype.toLowerCase());
    if (kind !== undefined) kinds.add(kind);
  }
  const charsets = [...text.matchAll(CHARSET)].map((found) => found[1] ?? '');
  const multipart = /multipart/i.test(text);
  return {
    kinds,
    multipart,
    packed: PACKED.test(text),
    formData: /multipart\/form-data/i.test(text),
    boundary: multipart ? boundaryOf(text) : undefined,
    charset: charsets.find((charset) => !KNOWN_CHARSET.test(charset)),
  };
}

/**
 * RFC 2046 section 5.1.1, strictly: given twice, in pieces (RFC 2231), with a space around `=` or otherwise
 * odd, some reader takes another one, and finds other parts.
 */
function boundaryOf(text: string): string | undefined {
  const type = MULTIPART.exec(text);
  if (type === null) return undefined;
  let boundary: string | undefined;
  let rest = text.slice(type[0].length);
  // One `;` without a parameter at the very end is common and harmless.
  while (rest !== '' && rest !== ';') {
    const found = PARAM.exec(rest);
    if (found === null) return undefined;
    if (found[1]?.toLowerCase() === 'boundary') {
      if (boundary !== undefined) return undefined;
      boundary = found[2] ?? found[3];
    }
    rest = rest.slice(found[0].length);
  }
  return boundary === undefined || /^$|^ | $|[^\x20-\x7e]/.test(boundary) ? undefined : boundary;
}

function kindOf(type: string, subtype: string): BodyKind | undefined {
  if (type === 'multipart') return 'multipart';
  if (/(?:^|[+.-])json5?$|^(?:graphql|csp-report|x-ndjson)$/.test(subtype)) return 'json';
  if (subtype === 'x-www-form-urlencoded') return 'form';
  if (type === 'text' || /(?:^|\+)xml$|javascript|yaml/.test(subtype)) return 'text';
  if (type === 'image' || type === 'video' || type === 'audio' || type === 'font') return 'binary';
  return undefined;
}

/** What the first bytes look like; more than one answer where more than one reading is plausible. */
export function sniff(first: Buffer): BodyKind[] {
  const probe = first.subarray(0, PROBE_BYTES);
  if (looksBinary(probe)) return ['binary'];
  const text = probe.toString('latin1').replace(/^\xef\xbb\xbf/, '');
  if (MULTIPART_START.test(text)) return ['multipart'];
  const found: BodyKind[] = [];
  if (/^\s*[{["]/.test(text)) found.push('json');
  if (FORM_START.test(text)) found.push('form');
  return found;
}

export function sniffBoundary(first: Buffer): string | undefined {
  return /^(?:\r?\n)?--([^\r\n]{1,200})\r?\n/.exec(first.subarray(0, PROBE_BYTES).toString('latin1'))?.[1];
}

function looksBinary(probe: Buffer): boolean {
  let odd = 0;
  // By index: the iterator of a buffer costs more than all else here.
  for (let at = 0; at < probe.length; at++) {
    const byte = probe[at] ?? 0;
    if (byte < 0x09 || (byte > 0x0d && byte < 0x20 && byte !== 0x1b) || byte === 0x7f) odd++;
  }
  return odd * 20 > probe.length;
}
