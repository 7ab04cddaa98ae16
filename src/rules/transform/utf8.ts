/**
 * UTF-8 from bytes held as Latin-1 characters (RFC 3629). Overlong forms become the character they stand for,
 * as lenient decoders read them; other invalid bytes stay Latin-1 characters. Full-width forms become ASCII.
 */
import type { Transformation } from './transformation.js';

const HIGH = /[\x80-\xff]/;
const SEQUENCE = /[\xc0-\xdf][\x80-\xbf]|[\xe0-\xef][\x80-\xbf]{2}|[\xf0-\xf4][\x80-\xbf]{3}/g;
const OVERLONG = /[\xc0\xc1][\x80-\xbf]|\xe0[\x80-\x9f][\x80-\xbf]|\xf0[\x80-\x8f][\x80-\xbf]{2}/;
const WIDE = /[\uff01-\uff5e\u3000\u2044\u2215\u29f8\u02b9\u02bc\u2032\ufe64\ufe65\u2024]/;
const WIDE_ALL = new RegExp(WIDE.source, 'g');
const SINGLE: Readonly<Record<string, string>> = {
  '\u3000': ' ',
  '\u2044': '/',
  '\u2215': '/',
  '\u29f8': '/',
  '\u02b9': "'",
  '\u02bc': "'",
  '\u2032': "'",
  '\ufe64': '<',
  '\ufe65': '>',
  '\u2024': '.',
};

export function foldUtf8(text: string): string {
  if (!HIGH.test(text)) return text;
  return text.replace(SEQUENCE, (bytes) => {
    let code = bytes.charCodeAt(0) & (bytes.length === 2 ? 0x1f : bytes.length === 3 ? 0x0f : 0x07);
    for (let at = 1; at < bytes.length; at++) code = (code << 6) | (bytes.charCodeAt(at) & 0x3f);
    return code > 0x10ffff ? bytes : String.fromCodePoint(code);
  });
}

/** True where bytes held as Latin-1 spell an ASCII or Latin character in more bytes than needed. */
export function isOverlong(text: string): boolean {
  return OVERLONG.test(text);
}

export const fullWidth: Transformation = {
  name: 'full-width',
  apply: (text) =>
    WIDE.test(text)
      ? text.replace(WIDE_ALL, (char) => SINGLE[char] ?? String.fromCharCode(char.charCodeAt(0) - 0xfee0))
      : text,
};
