/**
 * The session cookie (RFC 6265 section 4.2). Of several cookies with the name, the first counts, as most
 * servers read it.
 */
import type { Dimension } from '../dimension.js';
import type { KeyedHash } from '../hash.js';

export const session = (cookie: string, hash: KeyedHash): Dimension => {
  const prefix = `${cookie}=`;
  return {
    name: 'session',
    inBody: false,
    read(facts) {
      const value = cookieValue(facts.headers.get('cookie'), prefix);
      return value === undefined ? undefined : hash(value);
    },
  };
};

/** The session that a Set-Cookie field hands out (RFC 6265 section 4.1), hashed as `read` does. */
export const issuedSession =
  (cookie: string, hash: KeyedHash) =>
  (setCookie: string): string | undefined => {
    const prefix = `${cookie}=`;
    if (!setCookie.startsWith(prefix)) return undefined;
    const end = setCookie.indexOf(';');
    const value = setCookie.slice(prefix.length, end < 0 ? undefined : end).trim();
    const taken = end >= 0 && /;\s*max-age\s*=\s*["']?(?:0|-)/i.test(setCookie.slice(end));
    return value === '' || taken ? undefined : hash(value);
  };

function cookieValue(header: string | undefined, prefix: string): string | undefined {
  if (header === undefined) return undefined;
  for (let at = header.indexOf(prefix); at >= 0; at = header.indexOf(prefix, at + 1)) {
    if (!startsPair(header, at)) continue;
    const end = header.indexOf(';', at);
    const value = header.slice(at + prefix.length, end < 0 ? undefined : end).trim();
    return value === '' ? undefined : value;
  }
  return undefined;
}

/** A pair starts the header or follows `;` and white space; `xsid=` is not `sid=`. */
function startsPair(header: string, at: number): boolean {
  const before = header.charCodeAt(at - 1);
  if (at === 0 || before === 59) return true;
  if (before !== 32 && before !== 9) return false;
  const trimmed = header.slice(0, at).trimEnd();
  return trimmed === '' || trimmed.endsWith(';');
}
