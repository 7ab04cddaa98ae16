/**
 * What a body is, by its Content-Type (RFC 9110 section 8.3) and by its first bytes. Back ends guess where
 * the type is missing, mangled or given twice, so every reading that is plausible is taken.
 */
export type BodyKind = 'json' | 'form' | 'multipart' | 'text' | 'binary';

export type ContentType = Readonly<{
  kinds: ReadonlySet<BodyKind>;
  boundary: string | undefined;
  /** The header names multipart, so that the body must be read as such. */
  multipart: boolean;
  /** A charset in which plain text looks like something else. */
  charset: string | undefined;
}>;

const TYPE = /([a-z0-9!#$&^_.+*-]+)\/([a-z0-9!#$&^_.+*-]+)/gi;
const BOUNDARY = /;\s*boundary\s*=\s*(?:"([^"\\]{1,200})"|([^\s;,"]{1,200}))/gi;
const CHARSET = /charset\s*=\s*["']?([a-z0-9_.:-]{1,40})/gi;
const KNOWN_CHARSET =
  /^(?:utf-?8|us-ascii|ascii|iso-8859-\d{1,2}|latin1|windows-125\d|gbk|gb2312|gb18030|big5|shift_jis|euc-(?:jp|kr)|koi8-r)$/i;
const MULTIPART_START = /^(?:\r?\n)?--[^\r\n]{1,200}\r?\nContent-(?:Disposition|Type)/i;
const FORM_START = /^[\w.%[\]+-]{1,100}=/;
const PROBE_BYTES = 1024;

export function readContentType(header: string | undefined): ContentType {
  const text = header ?? '';
  const kinds = new Set<BodyKind>();
  for (const [, type = '', subtype = ''] of text.matchAll(TYPE)) {
    const kind = kindOf(type.toLowerCase(), subtype.toLowerCase());
    if (kind !== undefined) kinds.add(kind);
  }
  const boundaries = new Set([...text.matchAll(BOUNDARY)].map((found) => found[1] ?? found[2] ?? ''));
  const charsets = [...text.matchAll(CHARSET)].map((found) => found[1] ?? '');
  return {
    kinds,
    multipart: kinds.has('multipart'),
    boundary: boundaries.size === 1 ? [...boundaries][0] : undefined,
    charset: charsets.find((charset) => !KNOWN_CHARSET.test(charset)),
  };
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
  for (const byte of probe) {
    if (byte < 0x09 || (byte > 0x0d && byte < 0x20 && byte !== 0x1b) || byte === 0x7f) odd++;
  }
  return odd * 20 > probe.length;
}
