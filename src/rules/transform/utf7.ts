/** UTF-7 runs such as `+ADw-` (RFC 2152), taken only where they decode to plain ASCII. */
import type { Transformation } from './transformation.js';

const RUN = /\+([a-z0-9/]{2,400})-/gi;

export const utf7: Transformation = {
  name: 'utf7',
  apply: (text) =>
    text.includes('+')
      ? text.replace(RUN, (whole, run: string) => {
          const bytes = Buffer.from(run, 'base64');
          let out = '';
          for (let at = 0; at + 1 < bytes.length; at += 2) {
            if (bytes[at] !== 0 || (bytes[at + 1] ?? 0) > 0x7e) return whole;
            out += String.fromCharCode(bytes[at + 1] ?? 0);
          }
          return out === '' ? whole : out;
        })
      : text,
};
