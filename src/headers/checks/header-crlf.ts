/**
 * CR, LF or NUL in a value, raw or as a percent-encoded line end followed by what would become a header or
 * status line if an origin copied the value into its answer (CWE-113). A line end alone is no sign: referers
 * and cookies carry people's text, so they are held to fields that nobody writes in prose.
 */
import type { HeaderCheck } from '../check.js';

const LINE_END = String.raw`%(?:0d|0a)[\s%20da]{0,12}`;
const NEVER_PROSE = String.raw`set-cookie2?(?::|%3a)|transfer-encoding(?::|%3a)|http/[0-3](?:\.\d)?(?:\s|%20|\+)[1-5]\d\d`;
const FIELD = String.raw`(?:location|refresh|content-[a-z-]{2,20}|access-control-[a-z-]{2,30}|x-[a-z-]{2,40})(?::|%3a)`;
const SMUGGLED = new RegExp(`${LINE_END}(?:${NEVER_PROSE}|${FIELD})`, 'i');
const SMUGGLED_BY_TEXT = new RegExp(`${LINE_END}(?:${NEVER_PROSE})`, 'i');
const TEXTS = new Set(['referer', 'cookie']);

export const headerCrlf: HeaderCheck = {
  id: 'HEADER-CRLF',
  create() {
    const message = 'CR, LF or NUL in a header value';
    const finding = { id: 'HEADER-CRLF', kind: 'malformed', points: 0, status: 400, message } as const;
    return ({ rawHeaders }) => {
      for (let index = 1; index < rawHeaders.length; index += 2) {
        const value = rawHeaders[index] ?? '';
        // Three plain searches cost a fifth of one character class.
        if (value.includes('\n') || value.includes('\r') || value.includes('\0')) return finding;
        if (value.includes('%0') && smuggles(rawHeaders[index - 1] ?? '', value)) return finding;
      }
      return undefined;
    };
  },
};

const smuggles = (name: string, value: string): boolean =>
  (TEXTS.has(name.toLowerCase()) ? SMUGGLED_BY_TEXT : SMUGGLED).test(value);
