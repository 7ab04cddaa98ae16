/**
 * The header of one multipart part (RFC 7578, RFC 2183), read strictly: where two readers could disagree
 * about whether the part is a file or a field, or in which charset it is, the answer is a refusal.
 */
export type PartHeader = Readonly<{
  name: string;
  /** Undefined for a field. */
  filename: string | undefined;
  /** `filename*` was given, so that some readers see a field and others a file. */
  both: boolean;
  /** Its bytes are written as base64, for those who heed that. */
  base64: boolean;
  /** Not the part of a form: what it is, its own type says. */
  opaque: boolean;
}>;

export type PartProblem = Readonly<{ status: 400 | 415; why: string }>;

const LINE = /^([!#$%&*+.^_|~A-Za-z0-9-]+):[ \t]*([^\x00-\x08\x0a-\x1f\x7f]*)$/;
const PARAM = /^;[ \t]*([A-Za-z-]+\*?)=(?:"((?:[^"\\]|\\.)*)"|([^\s;"\\,()<>@:?=[\]{}]+))[ \t]*/;
/** Those of RFC 2183 that no reader of forms takes for something else. */
const HARMLESS = new Set(['size', 'creation-date', 'modification-date', 'read-date']);
const KNOWN = new Set(['name', 'filename', 'filename*', ...HARMLESS]);
/** What an escaped quote would show to readers that end the value there. */
const HIDDEN_PARAM = /;\s*[\w*-]{1,40}\s*=/;
const BINARY_TYPE = /^(?:image|video|audio|font)\/|^application\/(?:octet-stream|pdf|zip|gzip)\b/i;
const CHARSET = /charset[ \t]*=[ \t]*["']?([^"';\s]*)/gi;
const PLAIN_CHARSETS = /^(?:utf-?8|us-ascii|ascii|iso-8859-1|latin1|windows-125\d)$/i;

/** `formData`: the parts are those of a form; otherwise they need no name. */
export function readPartHeader(text: string, formData = true): PartHeader | PartProblem {
  let disposition: string | undefined;
  let type = '';
  let coding = '';
  const seen = new Set<string>();
  for (const line of text === '' ? [] : text.split('\r\n')) {
    const found = LINE.exec(line);
    if (found === null) return { status: 400, why: 'a part header line cannot be read' };
    const name = (found[1] ?? '').toLowerCase();
    const value = found[2] ?? '';
    if (seen.has(name)) return { status: 400, why: `a part has ${name} twice` };
    seen.add(name);
    if (name === 'content-disposition') disposition = value;
    if (name === 'content-transfer-encoding') coding = value.trim().toLowerCase();
    if (name === 'content-type') type = value;
    if (
      name === 'content-type' &&
      [...value.matchAll(CHARSET)].some(([, charset]) => !PLAIN_CHARSETS.test(charset ?? ''))
    ) {
      return { status: 415, why: 'a part has a charset that is not supported' };
    }
  }
  const plain = /^(?:|7bit|8bit|binary)$/.test(coding);
  if (!plain && coding !== 'base64')
    return { status: 415, why: 'a part has a transfer encoding that is not supported' };
  const opaque = !formData && (disposition === undefined || !/^form-data/i.test(disposition));
  if (opaque) {
    const filename = BINARY_TYPE.test(type) ? (disposition ?? type) : undefined;
    return { name: '', filename, both: false, base64: !plain, opaque };
  }
  if (disposition === undefined) return { status: 400, why: 'a part has no Content-Disposition' };
  const read = readDisposition(disposition);
  if ('status' in read || plain) return read;
  // A field in base64 is a value to those who decode it and another one to the rest.
  if (read.filename === undefined || read.both)
    return { status: 415, why: 'a field has a transfer encoding that is not supported' };
  return { ...read, base64: true };
}

function readDisposition(value: string): PartHeader | PartProblem {
  const type = /^form-data[ \t]*/i.exec(value);
  if (type === null) return { status: 400, why: 'a part is not form-data' };
  const params = new Map<string, string>();
  let rest = value.slice(type[0].length);
  while (rest !== '') {
    const found = PARAM.exec(rest);
    const key = found?.[1]?.toLowerCase();
    if (found === null || key === undefined || params.has(key))
      return { status: 400, why: 'a Content-Disposition can be read in two ways' };
    if (!KNOWN.has(key))
      return { status: 400, why: 'a Content-Disposition has an unknown parameter' };
    // Extended values (RFC 8187) have quotes by their syntax; elsewhere some readers take a single quote for
    // a delimiter.
    if (key !== 'filename*' && found[3]?.includes("'") === true)
      return { status: 400, why: 'a parameter has a stray quote' };
    const quoted = found[2];
    rest = rest.slice(found[0].length);
    // Readers that know no escapes end the value here: nothing that counts may follow for them.
    if (quoted?.includes('\\"') === true && (key !== 'filename' || rest !== '' || HIDDEN_PARAM.test(quoted)))
      return { status: 400, why: 'an escaped quote can be read in two ways' };
    params.set(key, quoted ?? found[3] ?? '');
  }
  const name = params.get('name');
  if (name === undefined) return { status: 400, why: 'a part has no name' };
  const plain = params.get('filename');
  const extended = params.get('filename*');
  const filename =
    extended === undefined ? plain : `${plain ?? ''} ${extended.replace(/^[^']*'[^']*'/, '')}`.trim();
  // A file without a name is an empty form control, or a field to those who test for emptiness.
  const both = extended !== undefined || plain === '';
  return { name, filename, both, base64: false, opaque: false };
}
