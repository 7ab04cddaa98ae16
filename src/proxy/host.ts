/**
 * One canonical host (RFC 9110 section 7.2): lower case, no port, no trailing dot. It feeds routing, keys,
 * rules and logs.
 */

const HOST = /^(?:([a-z0-9_](?:[a-z0-9_.-]*[a-z0-9_])?)\.?|(\[[0-9a-f:.]+\]))(?::(\d{1,5}))?$/i;
const MEMO_MAX = 1000;
const memo = new Map<string, string>();

/** Undefined where the text is no host. A doubled dot inside is refused as well. */
export function canonicalHost(text: string): string | undefined {
  const known = memo.get(text);
  if (known !== undefined) return known;
  const found = text.length <= 260 ? HOST.exec(text) : null;
  if (found === null || text.includes('..') || Number(found[3] ?? 0) > 65_535) return undefined;
  const host = (found[1] ?? found[2] ?? '').toLowerCase();
  if (memo.size >= MEMO_MAX) memo.clear();
  memo.set(text, host);
  return host;
}

/** Whether a site may name this: a host without a port, `*.` before one, or `*`. */
export function isHostPattern(text: string): boolean {
  if (text === '*') return true;
  const host = text.startsWith('*.') ? text.slice(2) : text;
  return canonicalHost(host) === host.toLowerCase().replace(/\.$/, '');
}

type Named = Readonly<{ name: string; hosts: readonly string[] }>;

/** Which site takes a host: exact names first, then the longest `*.` suffix, then `*`. */
export function createSiteLookup(sites: readonly Named[]): (host: string) => string | undefined {
  const exact = new Map<string, string>();
  const suffixes = new Map<string, string>();
  let any: string | undefined;
  for (const site of sites) {
    for (const text of site.hosts) {
      const host = text.toLowerCase().replace(/\.$/, '');
      if (host === '*') any ??= site.name;
      else if (host.startsWith('*.')) suffixes.set(host.slice(1), site.name);
      else exact.set(host, site.name);
    }
  }
  return (host) => {
    const found = exact.get(host);
    if (found !== undefined || suffixes.size === 0) return found ?? any;
    for (let dot = host.indexOf('.'); dot >= 0; dot = host.indexOf('.', dot + 1)) {
      const site = suffixes.get(host.slice(dot));
      if (site !== undefined) return site;
    }
    return any;
  };
}
