/**
 * Who the client is. X-Forwarded-For counts only when the peer is a trusted proxy; the list is walked from
 * the right and stops at the first hop that is not trusted. An entry that is no address ends the walk at the
 * last hop that was one. Everything else a client may send about its own address is ignored and not passed
 * on.
 */
import { behindNat64, canonicalAddress, prefixKey } from '../core/address.js';
import type { ClientFacts } from '../core/request.js';

export type ClientSettings = Readonly<{
  trusted: { has(ip: string): boolean };
  ipv6Prefix: number;
}>;

const HOPS_MAX = 32;
const LIST_BYTES_MAX = 2048;
const WIDE_PREFIX = 56;

export function clientOf(
  input: Readonly<{ peer: string; proxied: string | undefined }>,
  forwardedFor: string | undefined,
  settings: ClientSettings,
): ClientFacts {
  const peer = canonicalAddress(input.peer) ?? '0.0.0.0';
  const nearest = (input.proxied === undefined ? undefined : canonicalAddress(input.proxied)) ?? peer;
  const found =
    forwardedFor !== undefined && settings.trusted.has(nearest)
      ? walk(forwardedFor, nearest, settings)
      : nearest;
  // Else all of IPv4, seen through a translator, would be one /64.
  const ip = behindNat64(found);
  return {
    ip,
    key: prefixKey(ip, settings.ipv6Prefix),
    wideKey: prefixKey(ip, Math.min(WIDE_PREFIX, settings.ipv6Prefix)),
    peer,
    viaProxy: found !== peer,
  };
}

function walk(list: string, nearest: string, settings: ClientSettings): string {
  let at = nearest;
  const text = list.length > LIST_BYTES_MAX ? list.slice(-LIST_BYTES_MAX) : list;
  const entries = text.split(',');
  for (let index = entries.length - 1, hops = 0; index >= 0 && hops < HOPS_MAX; index--, hops++) {
    const address = hopAddress(entries[index]!);
    if (address === undefined) return at;
    at = address;
    if (!settings.trusted.has(address)) return at;
  }
  return at;
}

/** `203.0.113.9`, `203.0.113.9:5555`, `[2001:db8::1]:443`, quoted or not. */
function hopAddress(entry: string): string | undefined {
  const text = entry.trim().replace(/^"|"$/g, '');
  const bracketed = /^\[([^\]]+)\](?::\d{1,5})?$/.exec(text);
  if (bracketed !== null) return canonicalAddress(bracketed[1]!);
  const withPort = /^(\d{1,3}(?:\.\d{1,3}){3}):\d{1,5}$/.exec(text);
  return canonicalAddress(withPort === null ? text : withPort[1]!);
}
