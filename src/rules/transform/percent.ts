/**
 * Percent-decoding (RFC 3986 section 2.1) and IIS `%uXXXX`. Invalid sequences stay as they are, as in
 * browsers.
 */
import type { Transformation } from './transformation.js';
import { foldUtf8 } from './utf8.js';

const SEQUENCE = /%(?:u([0-9a-f]{4})|([0-9a-f]{2}))/gi;

export function decodePercent(text: string): string {
  if (!text.includes('%')) return text;
  const bytes = text.replace(SEQUENCE, (_whole, wide: string | undefined, narrow: string | undefined) =>
    String.fromCharCode(parseInt(wide ?? narrow ?? '0', 16)),
  );
  return foldUtf8(bytes);
}

/** As a form field is read: `+` is a space, once. */
export function decodeForm(text: string): string {
  return decodePercent(text.includes('+') ? text.replaceAll('+', ' ') : text);
}

export const percent: Transformation = { name: 'percent', apply: decodePercent };
