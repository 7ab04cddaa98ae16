/**
 * The session cookie (RFC 6265 section 4.2). Of several cookies with the name the first counts, as most
 * servers read it, and the others are known too. Quotes, percent-encoding and white space around the name,
 * which servers take away, make no other session.
 */
import type { Dimension } from '../dimension.js';
import type { KeyedHash } from '../hash.js';

/** So many cookies of the name are looked at. */
const VALUES_MAX = 4;

export const session = (cookie: string, hash: KeyedHash): Dimension => ({
  name: 'session',
  inBody: false,
  read(facts) {
    const [value] = cookieValues(facts.headers.get('cookie'), cookie, 1);
    return value === undefined ? undefined : hash(value);
  },
  others(facts) {
    const [first, ...others] = cookieValues(facts.headers.get('cookie'), cookie, VALUES_MAX);
    return others.length === 0 ? others : others.filter((value) => value !== first).map(hash);
  },
});

/** The session that a Set-Cookie field hands out (RFC 6265 section 4.1), hashed as `read` does. */
export const issuedSession =
  (cookie: string, hash: KeyedHash) =>
  (setCookie: string): string | undefined => {
    const prefix = `${cookie}=`;
    if (!setCookie.startsWith(prefix)) return undefined;
    const end = setCookie.indexOf(';');
    const value = plain(setCookie.slice(prefix.length, end < 0 ? undefined : end));
    const taken = end >= 0 && /;\s*max-age\s*=\s*["']?(?:0|-)/i.test(setCookie.slice(end));
    return value === '' || taken ? undefined : hash(value);
  };

function cookieValues(header: string | undefined, name: string, max: number): string[] {
  const values: string[] = [];
  if (header === undefined) return values;
  for (let at = header.indexOf(name); at >= 0; at = header.indexOf(name, at + 1)) {
    const from = afterName(header, at, at + name.length);
    if (from < 0) continue;
    const end = header.indexOf(';', from);
    const value = plain(header.slice(from, end < 0 ? undefined : end));
    if (value !== '') values.push(value);
    if (values.length === max) break;
  }
  return values;
}

/** Where the value begins if a pair with the name stands here, else -1; `xsid=` is not `sid=`. */
function afterName(header: string, at: number, nameEnd: number): number {
  let before = at - 1;
  while (before >= 0 && isBlank(header.charCodeAt(before))) before--;
  if (before >= 0 && header.charCodeAt(before) !== 59) return -1;
  let equals = nameEnd;
  while (isBlank(header.charCodeAt(equals))) equals++;
  return header.charCodeAt(equals) === 61 ? equals + 1 : -1;
}

const isBlank = (code: number): boolean => code === 32 || code === 9;

/** As servers hand it to applications: without the quotes, percent-decoded where that gives text. */
function plain(raw: string): string {
  let value = raw.trim();
  if (value.length > 1 && value.startsWith('"') && value.endsWith('"')) value = value.slice(1, -1);
  if (!value.includes('%')) return value;
  try {
    return decodeURIComponent(value);
  } catch {
    return value;
  }
}
