/**
 * The user a request speaks of: a header, else a JWT claim (RFC 7519), else a body field. The JWT's signature
 * is NOT verified: the claim only names whose allowance is used, it proves nothing, so pair it with an
 * address limit. Spellings that origins and databases take for one make no other user.
 */
import { AMBIGUOUS, type FieldReader } from '../../core/identity.js';
import type { RequestFacts } from '../../core/request.js';
import type { Dimension } from '../dimension.js';
import type { KeyedHash } from '../hash.js';

const TOKEN_MAX = 8192;
const NAME_MAX = 1024;
/** So many values of one request count. */
const VALUES_MAX = 4;

export type UserSource = Readonly<{
  header?: string | undefined;
  jwtClaim?: string | undefined;
  jsonField?: string | readonly string[] | undefined;
}>;

export const user = (source: UserSource, hash: KeyedHash): Dimension => {
  const fields = source.jsonField === undefined ? [] : [source.jsonField].flat();
  const header = source.header?.toLowerCase();
  const claimPath = source.jwtClaim?.split('.');
  const inHead = (facts: RequestFacts): string | undefined =>
    (header === undefined ? undefined : plain(utf8(facts.headers.get(header)))) ??
    (claimPath === undefined ? undefined : plain(jwtClaim(facts.headers.get('authorization'), claimPath)));
  return {
    name: 'user',
    inBody: fields.length > 0,
    read(facts, field) {
      const value = inHead(facts) ?? (field === undefined ? undefined : firstField(fields, field));
      return value === undefined ? undefined : hash(value);
    },
    others(facts, field) {
      if (field === undefined || fields.length < 2 || inHead(facts) !== undefined) return [];
      const values = new Set(fields.flatMap((name) => plain(field(name)) ?? []));
      return [...values].slice(1, VALUES_MAX).map(hash);
    },
  };
};

function firstField(fields: readonly string[], field: FieldReader): string | undefined {
  for (const name of fields) {
    const value = plain(field(name));
    if (value !== undefined) return value;
  }
  return undefined;
}

/** Header values are bytes; where they are UTF-8, the text. */
function utf8(value: string | undefined): string | undefined {
  if (value === undefined || !/[\x80-\xff]/.test(value)) return value;
  const text = Buffer.from(value, 'latin1').toString('utf8');
  return text.includes('\ufffd') ? value : text;
}

/** Soft hyphens, zero-width and direction marks, tags, NUL and its like: nobody sees them. */
const UNSEEN = /[\p{Cf}\p{Cc}\p{Default_Ignorable_Code_Point}]/gu;
const NUMBER = /^([+-]?)0*(\d*)(?:\.(\d*))?(?:e([+-]?)0*(\d{1,6}))?$/;

function plain(value: string | undefined): string | undefined {
  if (value === undefined || value === AMBIGUOUS) return value;
  const seen = value.replace(/\s+/g, ' ').replace(UNSEEN, '').trim().slice(0, NAME_MAX);
  // Upper case first: it unites what lower case leaves apart (ß and SS, both sigmas).
  const text = seen.normalize('NFKC').toUpperCase().toLowerCase().normalize('NFKC').replace(UNSEEN, '').trim();
  return text === '' ? undefined : canonicalNumber(text);
}

/** `49170123.0`, `+049170123` and `4.9170123e7` are one number, and one user to whoever reads numbers. */
function canonicalNumber(text: string): string {
  const parts = NUMBER.exec(text);
  if (parts === null || !/\d/.test(text)) return text;
  const [, sign = '', whole = '', fraction = '', down, exponent = '0'] = parts;
  const digits = (whole + fraction).replace(/^0+/, '');
  const point = digits.length - fraction.length + Number(exponent) * (down === '-' ? -1 : 1);
  const significant = withoutTrailingZeros(digits);
  if (significant === '') return '0';
  return `${sign === '-' ? '-' : ''}${significant}e${point}`;
}

function withoutTrailingZeros(digits: string): string {
  let end = digits.length;
  while (end > 0 && digits.charCodeAt(end - 1) === 48) end--;
  return digits.slice(0, end);
}

/** The claim at `path` of a bearer token; undefined for whatever is no JWT. */
function jwtClaim(header: string | undefined, path: readonly string[]): string | undefined {
  if (header === undefined || header.length > TOKEN_MAX || !/^bearer /i.test(header)) return undefined;
  const payload = header.slice(7).split('.', 3)[1];
  if (payload === undefined) return undefined;
  let at: unknown;
  try {
    at = JSON.parse(Buffer.from(payload, 'base64url').toString('utf8'));
  } catch {
    return undefined;
  }
  for (const name of path) {
    if (typeof at !== 'object' || at === null || !Object.hasOwn(at, name)) return undefined;
    at = (at as Record<string, unknown>)[name];
  }
  return typeof at === 'string' ? at : typeof at === 'number' ? String(at) : undefined;
}
