/**
 * Text inside well-known containers: JWT (RFC 7519), Basic credentials (RFC 7617) and `data:` URIs
 * (RFC 2397). Only what decodes to text is taken; signatures, keys and images are not.
 */
import { decodeBase64 } from './base64.js';

const NONE: readonly string[] = Object.freeze([]);
const JWT = /^(?:bearer\s{1,5})?(eyJ[\w-]{6,8192})\.([\w-]{2,8192})(?:\.[\w-]{0,8192})?$/i;
const BASIC = /^basic\s{1,5}([\w+/=-]{4,8192})$/i;
const DATA = /data:[^,;]{0,100}(?:;[^,;]{0,100}){0,4};base64,([\w+/=-]{4,65536})/gi;

/** What the text holds, decoded; mostly nothing, and then for the price of a look. */
export function containedIn(text: string): readonly string[] {
  const first = text.charCodeAt(0) | 0x20;
  if (first === 0x62 || first === 0x65) {
    const jwt = JWT.exec(text);
    if (jwt !== null) return [jwt[1], jwt[2]].map(plainly).filter((part) => part !== '');
    const basic = BASIC.exec(text)?.[1];
    if (basic !== undefined) return [plainly(basic)].filter((part) => part !== '');
    if (text.startsWith('eyJ')) return [decodeBase64(text) ?? ''].filter((part) => part !== '');
  }
  if (!text.includes(';base64,')) return NONE;
  return [...text.matchAll(DATA)].slice(0, 16).flatMap(([, coded = '']) => decodeBase64(coded) ?? []);
}

/** Short text too, as long as all of it is text. */
function plainly(coded: string | undefined): string {
  const text = Buffer.from(coded ?? '', 'base64').toString('latin1');
  return /[\x00-\x08\x0e-\x1f]/.test(text) ? '' : text;
}
