/** CR, LF or NUL in a value, raw or percent-encoded in a field that an origin may copy into its answer (CWE-113). */
import type { HeaderCheck } from '../check.js';

const RAW = /[\r\n\0]/;

export const headerCrlf: HeaderCheck = {
  id: 'HEADER-CRLF',
  create() {
    const message = 'CR, LF or NUL in a header value';
    const finding = { id: 'HEADER-CRLF', kind: 'malformed', points: 0, status: 400, message } as const;
    return ({ rawHeaders }) => {
      for (let index = 1; index < rawHeaders.length; index += 2) {
        const value = rawHeaders[index]!;
        if (RAW.test(value) || (value.includes('%0') && smuggles(value))) return finding;
      }
      return undefined;
    };
  },
};

/** `%0d%0aSet-Cookie:` and the like: an encoded line end followed by what would become a header or status line. */
const SMUGGLED = /%0(?:d(?:%0a)?|a)[\s%20]*(?:[A-Za-z-]{2,40}(?::|%3a)|HTTP\/\d)/i;
const smuggles = (value: string): boolean => SMUGGLED.test(value);
