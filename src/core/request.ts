/**
 * The one canonical request. It is parsed once by the proxy; every stage reads it and none changes it.
 * Strings hold bytes as Latin-1 code points (one char = one byte), exactly as Node's parser hands them over.
 */

export type ClientFacts = Readonly<{
  /** Canonical text of the client's address (IPv4-mapped IPv6 folded, IPv6 compressed per RFC 5952). */
  ip: string;
  /** What limits and bans key on: the IPv4 address, or the IPv6 prefix such as `2001:db8:1:2::/64`. */
  key: string;
  /** A second, wider key for IPv6: the /56 prefix; equal to `key` for IPv4. */
  wideKey: string;
  /** Address of the socket's other end, canonical. */
  peer: string;
  /** True when `ip` came from a trusted proxy's header or PROXY protocol. */
  viaProxy: boolean;
}>;

export type RequestFacts = Readonly<{
  requestId: string;
  /** Wall clock, milliseconds since the epoch. */
  receivedAtMs: number;
  /** Name of the site that the host belongs to, `unknown` where none does. */
  site: string;
  /** True when no configured site takes this host. */
  unknownHost: boolean;
  method: string;
  /** Origin-form target exactly as it is forwarded. */
  target: string;
  /** Raw path: `target` up to the first `?`. */
  path: string;
  /** Raw query without the `?`; empty string when there is none. */
  query: string;
  /** Decoded once, slashes collapsed, dot segments removed: what policies and sites match on. */
  cleanPath: string;
  httpVersion: string;
  scheme: 'http' | 'https';
  /** Lower case, no port, no trailing dot; IPv6 literals in brackets. */
  host: string;
  /** Name and value in turn, order, case and duplicates as received. */
  rawHeaders: readonly string[];
  /** Lower-case name → value; repeated list headers joined with `, `, Cookie with `; `. */
  headers: ReadonlyMap<string, string>;
  client: ClientFacts;
  /** True when a body follows (Content-Length above 0, or chunked). */
  hasBody: boolean;
  /** Undefined for chunked bodies. */
  contentLength: number | undefined;
}>;
