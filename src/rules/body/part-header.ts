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
}>;

export type PartProblem = Readonly<{ status: 400 | 415; why: string }>;

const LINE = /^([!#$%&*+.^_|~A-Za-z0-9-]+):[ \t]*([^\x00-\x08\x0a-\x1f\x7f]*)$/;
const PARAM = /^;[ \t]*([A-Za-z]+\*?)=(?:"((?:[^"\\]|\\[^"])*)"|([^\s;"\\,()<>@:?=[\]{}]+))[ \t]*/;
const CHARSET = /charset[ \t]*=[ \t]*["']?([^"';\s]*)/gi;
const PLAIN_CHARSETS = /^(?:utf-?8|us-ascii|ascii|iso-8859-1|latin1|windows-125\d)$/i;

export function readPartHeader(text: string): PartHeader | PartProblem {
  let disposition: string | undefined;
  const seen = new Set<string>();
  for (const line of text.split('\r\n')) {
    const found = LINE.exec(line);
    if (found === null) return { status: 400, why: 'a part header line cannot be read' };
    const name = (found[1] ?? '').toLowerCase();
    const value = found[2] ?? '';
    if (seen.has(name)) return { status: 400, why: `a part has ${name} twice` };
    seen.add(name);
    if (name === 'content-disposition') disposition = value;
    if (name === 'content-transfer-encoding' && !/^(?:7bit|8bit|binary)[ \t]*$/i.test(value)) {
      return { status: 415, why: 'a part has a transfer encoding that is not supported' };
    }
    if (
      name === 'content-type' &&
      [...value.matchAll(CHARSET)].some(([, charset]) => !PLAIN_CHARSETS.test(charset ?? ''))
    ) {
      return { status: 415, why: 'a part has a charset that is not supported' };
    }
  }
  return disposition === undefined
    ? { status: 400, why: 'a part has no Content-Disposition' }
    : readDisposition(disposition);
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
    if (!['name', 'filename', 'filename*'].includes(key))
      return { status: 400, why: 'a Content-Disposition has an unknown parameter' };
    // Extended values (RFC 8187) have quotes by their syntax; elsewhere some readers take a single quote for
    // a delimiter.
    if (key !== 'filename*' && found[3]?.includes("'") === true)
      return { status: 400, why: 'a parameter has a stray quote' };
    params.set(key, found[2] ?? found[3] ?? '');
    rest = rest.slice(found[0].length);
  }
  const name = params.get('name');
  if (name === undefined) return { status: 400, why: 'a part has no name' };
  const plain = params.get('filename');
  const extended = params.get('filename*');
  const filename =
    extended === undefined ? plain : `${plain ?? ''} ${extended.replace(/^[^']*'[^']*'/, '')}`.trim();
  // A file without a name is an empty form control, or a field to those who test for emptiness.
  return { name, filename, both: extended !== undefined || plain === '' };
}
