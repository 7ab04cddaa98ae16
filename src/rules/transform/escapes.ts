/** Backslash escapes of JSON (RFC 8259 section 7) and JavaScript: `\u0027`, `\u{27}`, `\x27`, `\47`, `\n`. */
import type { Transformation } from './transformation.js';

const ESCAPE =
  /\\(?:u\{0{0,8}([0-9a-f]{1,6})\}|u([0-9a-f]{4})|x([0-9a-f]{2})|([0-7]{2,3})|([0abfnrtv/"'`\\]))/gi;

const SHORT: Readonly<Record<string, string>> = {
  '0': '\0',
  a: '\x07',
  b: '\b',
  f: '\f',
  n: '\n',
  r: '\r',
  t: '\t',
  v: '\v',
};

export function decodeEscapes(text: string): string {
  return text.includes('\\') ? text.replace(ESCAPE, decode) : text;
}

function decode(
  whole: string,
  braced: string | undefined,
  wide: string | undefined,
  narrow: string | undefined,
  ...[octal, short]: (string | undefined)[]
): string {
  if (short !== undefined) return SHORT[short] ?? (/[a-z]/i.test(short) ? whole : short);
  const code = octal === undefined ? parseInt(braced ?? wide ?? narrow ?? '', 16) : parseInt(octal, 8);
  return code <= 0x10ffff ? String.fromCodePoint(code) : whole;
}

export const escapes: Transformation = { name: 'escapes', apply: decodeEscapes };
