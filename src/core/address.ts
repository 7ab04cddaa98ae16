/**
 * Network addresses in one canonical form: IPv4 in dotted decimal without leading zeros, IPv6 as RFC 5952
 * writes it, IPv4-mapped IPv6 (RFC 4291, 2.5.5.2) folded to IPv4. Nothing here throws, whatever the text.
 * Other embeddings of IPv4 (6to4, and NAT64 but for `behindNat64`) are addresses of their own, IPv6.
 */
import { LRUCache } from 'lru-cache';

const TEXT_MAX = 64;
const MEMO_MAX = 4096;

/**
 * An address or network: `prefix` is 32 or 128 for a single address. IPv4 sits in `v4` (unsigned), IPv6 in
 * eight groups.
 */
export type Network = Readonly<
  { family: 4; v4: number; prefix: number } | { family: 6; groups: readonly number[]; prefix: number }
>;

/**
 * Dotted decimal → unsigned 32 bits; -1 for anything else, leading zeros included (some read them as octal).
 */
export function parseIpv4(text: string): number {
  const length = text.length;
  if (length < 7 || length > 15) return -1;
  let value = 0;
  let octet = -1;
  let dots = 0;
  for (let at = 0; at < length; at++) {
    const code = text.charCodeAt(at);
    if (code === 46) {
      if (octet < 0 || ++dots > 3) return -1;
      value = value * 256 + octet;
      octet = -1;
    } else if (code >= 48 && code <= 57 && octet !== 0) {
      octet = octet < 0 ? code - 48 : octet * 10 + code - 48;
      if (octet > 255) return -1;
    } else return -1;
  }
  return dots === 3 && octet >= 0 ? value * 256 + octet : -1;
}

/** IPv6 text (no zone, no brackets) into eight 16-bit groups of `into`; false where it is not IPv6. */
export function parseIpv6(text: string, into: Uint16Array | number[]): boolean {
  const length = text.length;
  if (length < 2 || length > 45) return false;
  let count = 0;
  let gap = -1;
  let at = 0;
  if (text.charCodeAt(0) === 58) {
    if (text.charCodeAt(1) !== 58) return false;
    gap = 0;
    at = 2;
  }
  while (at < length) {
    if (count === 8) return false;
    const start = at;
    let value = 0;
    for (let digit; at < length && (digit = hexDigit(text.charCodeAt(at))) >= 0; at++) {
      value = value * 16 + digit;
    }
    if (at < length && text.charCodeAt(at) === 46) {
      const tail = count <= 6 ? parseIpv4(text.slice(start)) : -1;
      if (tail < 0) return false;
      into[count++] = tail >>> 16;
      into[count++] = tail & 0xffff;
      at = length;
      break;
    }
    if (at === start || at - start > 4) return false;
    into[count++] = value;
    if (at === length) break;
    if (text.charCodeAt(at++) !== 58 || at === length) return false;
    if (text.charCodeAt(at) === 58) {
      if (gap >= 0) return false;
      gap = count;
      at++;
    }
  }
  return spread(into, count, gap);
}

/** Moves what follows `::` to the end and fills the hole with zeros. */
function spread(into: Uint16Array | number[], count: number, gap: number): boolean {
  if (gap < 0) return count === 8;
  if (count > 7) return false;
  const moved = count - gap;
  for (let i = 0; i < moved; i++) into[7 - i] = into[count - 1 - i] ?? 0;
  for (let i = gap; i < 8 - moved; i++) into[i] = 0;
  return true;
}

function hexDigit(code: number): number {
  if (code >= 48 && code <= 57) return code - 48;
  const lower = code | 32;
  return lower >= 97 && lower <= 102 ? lower - 87 : -1;
}

const scratch = new Uint16Array(8);
const canonicalMemo = new LRUCache<string, string>({ max: MEMO_MAX });

/** The one text of an address; a zone id (`%eth0`) is cut off; undefined where the text is no address. */
export function canonicalAddress(text: string): string | undefined {
  if (typeof text !== 'string' || text.length > TEXT_MAX) return undefined;
  if (parseIpv4(text) >= 0) return text;
  const known = canonicalMemo.get(text);
  if (known !== undefined) return known;
  const zone = text.indexOf('%');
  if (zone === text.length - 1) return undefined;
  if (!parseIpv6(zone < 0 ? text : text.slice(0, zone), scratch)) return undefined;
  const canonical = isMapped(scratch) ? formatIpv4(mappedIpv4(scratch)) : formatIpv6(scratch);
  canonicalMemo.set(text, canonical);
  return canonical;
}

/** Unsigned 32 bits → dotted decimal. */
export function formatIpv4(value: number): string {
  return `${value >>> 24}.${(value >>> 16) & 255}.${(value >>> 8) & 255}.${value & 255}`;
}

/** Eight groups → RFC 5952: lower case, the first longest run of two or more zero groups becomes `::`. */
export function formatIpv6(groups: ArrayLike<number>): string {
  let best = -1;
  let bestLength = 1;
  for (let at = 0; at < 8; at++) {
    let end = at;
    while (end < 8 && groups[end] === 0) end++;
    if (end - at > bestLength) {
      best = at;
      bestLength = end - at;
    }
    if (end > at) at = end;
  }
  let text = '';
  for (let at = 0; at < 8; at++) {
    if (at === best) {
      text += '::';
      at += bestLength - 1;
    } else {
      if (text !== '' && !text.endsWith(':')) text += ':';
      text += (groups[at] ?? 0).toString(16);
    }
  }
  return text;
}

function isMapped(groups: ArrayLike<number>): boolean {
  for (let at = 0; at < 5; at++) if (groups[at] !== 0) return false;
  return groups[5] === 0xffff;
}

function mappedIpv4(groups: ArrayLike<number>): number {
  return (groups[6] ?? 0) * 65_536 + (groups[7] ?? 0);
}

/** `64:ff9b::` and the groups before the IPv4 address: the well-known prefix of RFC 6052, 2.1. */
const NAT64_BITS = 96;
const isNat64 = (groups: ArrayLike<number>): boolean =>
  groups[0] === 0x64 && groups[1] === 0xff9b && !groups[2] && !groups[3] && !groups[4] && !groups[5];

/** The IPv4 address that a canonical address in 64:ff9b::/96 stands for; any other comes back as it is. */
export function behindNat64(ip: string): string {
  if (!ip.startsWith('64:ff9b::') || !parseIpv6(ip, scratch) || !isNat64(scratch)) return ip;
  return formatIpv4(mappedIpv4(scratch));
}

/**
 * The same for networks. Undefined where one wider than /96, but not everything, holds the whole prefix, and
 * with it everybody behind NAT64.
 */
export function networkBehindNat64(network: Network): Network | undefined {
  if (network.family === 4) return network;
  const { groups, prefix } = network;
  if (prefix >= NAT64_BITS && isNat64(groups)) {
    const bits = prefix - NAT64_BITS;
    return { family: 4, v4: maskIpv4(mappedIpv4(groups), bits), prefix: bits };
  }
  if (prefix === 0) return network;
  const all: Network = { family: 6, groups: [0x64, 0xff9b, 0, 0, 0, 0, 0, 0], prefix: NAT64_BITS };
  return networkContains(network, all) ? undefined : network;
}

const keyMemos = new Map<number, LRUCache<string, string>>();

/**
 * What limits and bans key on: an IPv4 address unchanged, an IPv6 address as its network,
 * `2001:db8:1:2::/64`. `ipv6Prefix` is cut to 0–128. Text that is no address comes back as it is.
 */
export function prefixKey(ip: string, ipv6Prefix: number): string {
  if (parseIpv4(ip) >= 0) return ip;
  const prefix = Math.min(128, Math.max(0, Math.trunc(ipv6Prefix) || 0));
  let memo = keyMemos.get(prefix);
  if (memo === undefined) keyMemos.set(prefix, (memo = new LRUCache({ max: MEMO_MAX })));
  const known = memo.get(ip);
  if (known !== undefined) return known;
  const canonical = canonicalAddress(ip);
  if (canonical === undefined) return ip;
  if (!parseIpv6(canonical, scratch)) return canonical;
  maskGroups(scratch, prefix);
  const key = `${formatIpv6(scratch)}/${prefix}`;
  memo.set(ip, key);
  return key;
}

/** Clears every bit below `prefix` (0–128) in place. */
export function maskGroups(groups: Uint16Array | number[], prefix: number): void {
  for (let at = 0; at < 8; at++) {
    const keep = Math.min(16, Math.max(0, prefix - at * 16));
    groups[at] = (groups[at] ?? 0) & (0xffff << (16 - keep)) & 0xffff;
  }
}

/** The unsigned network address of an IPv4 `value` under `prefix` (0–32). */
export function maskIpv4(value: number, prefix: number): number {
  return prefix === 0 ? 0 : (value & (0xffffffff << (32 - prefix))) >>> 0;
}

/**
 * An address or CIDR with its host bits cleared; undefined where it is neither. `::ffff:10.0.0.0/104` is
 * 10.0.0.0/8; a mapped network wider than /96 reaches beyond IPv4 and stays IPv6.
 */
export function parseNetwork(text: string): Network | undefined {
  if (typeof text !== 'string' || text.length > TEXT_MAX) return undefined;
  const slash = text.indexOf('/');
  const address = slash < 0 ? text : text.slice(0, slash);
  const prefixText = slash < 0 ? undefined : text.slice(slash + 1);
  if (prefixText !== undefined && !/^(?:0|[1-9]\d{0,2})$/.test(prefixText)) return undefined;
  const v4 = parseIpv4(address);
  const prefix = prefixText === undefined ? (v4 >= 0 ? 32 : 128) : Number(prefixText);
  if (v4 >= 0) return prefix > 32 ? undefined : { family: 4, v4: maskIpv4(v4, prefix), prefix };
  const groups = [0, 0, 0, 0, 0, 0, 0, 0];
  if (prefix > 128 || !parseIpv6(address, groups)) return undefined;
  if (prefix >= 96 && isMapped(groups)) {
    return { family: 4, v4: maskIpv4(mappedIpv4(groups), prefix - 96), prefix: prefix - 96 };
  }
  maskGroups(groups, prefix);
  return { family: 6, groups, prefix };
}

/** True where `inner` lies wholly in `outer`. */
export function networkContains(outer: Network, inner: Network): boolean {
  if (outer.prefix > inner.prefix) return false;
  if (outer.family === 4) return inner.family === 4 && maskIpv4(inner.v4, outer.prefix) === outer.v4;
  if (inner.family !== 6) return false;
  for (let at = 0; at < 8; at++) {
    const keep = Math.min(16, Math.max(0, outer.prefix - at * 16));
    if (((inner.groups[at] ?? 0) & (0xffff << (16 - keep)) & 0xffff) !== outer.groups[at]) return false;
  }
  return true;
}

/** Canonical text: the bare address for a single one, CIDR notation otherwise. */
export function formatNetwork(network: Network): string {
  const address = network.family === 4 ? formatIpv4(network.v4) : formatIpv6(network.groups);
  const single = network.family === 4 ? 32 : 128;
  return network.prefix === single ? address : `${address}/${network.prefix}`;
}

/**
 * A small fixed set (trusted proxies, own addresses): linear in its networks. Entries that are no network are
 * left out; validate them before. For large lists see structures/cidr-set.
 */
export function createNetworkSet(cidrs: readonly string[]): { has(ip: string): boolean } {
  const networks = cidrs.map(parseNetwork).filter((network) => network !== undefined);
  if (networks.length === 0) return { has: () => false };
  const memo = new LRUCache<string, boolean>({ max: MEMO_MAX });
  return {
    has(ip) {
      const known = memo.get(ip);
      if (known !== undefined) return known;
      const address = parseNetwork(canonicalAddress(ip) ?? '');
      if (address === undefined) return false;
      const inside = networks.some((network) => networkContains(network, address));
      memo.set(ip, inside);
      return inside;
    },
  };
}
