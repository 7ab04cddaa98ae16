/**
 * Which headers go on. To the origin: as received in case, order and number, less hop-by-hop fields (RFC 9110
 * section 7.6.1) and everything that claims to know the client's address or another path; ours are added at
 * the end. To the client: as the origin sent them, less hop-by-hop fields.
 */
import type { RequestFacts } from '../core/request.js';

const HOP_BY_HOP = new Set([
  'connection',
  'keep-alive',
  'proxy-connection',
  'proxy-authenticate',
  'proxy-authorization',
  'te',
  'trailer',
  'transfer-encoding',
  'upgrade',
]);

/** Fields by which a client could choose its own address, scheme or path. */
const FORWARDING = new Set([
  'forwarded',
  'x-forwarded-for',
  'x-forwarded-host',
  'x-forwarded-proto',
  'x-forwarded-port',
  'x-forwarded-server',
  'x-forwarded-scheme',
  'x-forwarded-prefix',
  'x-forwarded-ssl',
  'x-real-ip',
  'x-client-ip',
  'x-cluster-client-ip',
  'x-originating-ip',
  'x-remote-ip',
  'x-remote-addr',
  'cf-connecting-ip',
  'cf-connecting-ipv6',
  'true-client-ip',
  'fastly-client-ip',
  'x-original-url',
  'x-rewrite-url',
  'x-original-host',
  'x-host',
  'x-request-id',
  'x-forwarded',
  'x-forwarded-by',
  'x-forwarded-uri',
  'x-forwarded-path',
  'x-forwarded-method',
  'x-forwarded-client-cert',
  'x-forwarded-proto-version',
  'x-forwarded-protocol',
  'x-url-scheme',
  'x-scheme',
  'front-end-https',
  'forwarded-for',
  'x-original-forwarded-for',
  'x-original-uri',
  'x-original-remote-addr',
  'x-proxyuser-ip',
  'client-ip',
  'remote-addr',
  'x-envoy-external-address',
  'x-envoy-original-path',
  'x-azure-clientip',
  'x-azure-socketip',
  'x-appengine-user-ip',
  'x-appengine-remote-addr',
  'x-appengine-https',
  'x-vercel-forwarded-for',
  'x-nf-client-connection-ip',
  'fly-client-ip',
  'do-connecting-ip',
  'cf-pseudo-ipv4',
  'x-http-host-override',
  // An origin run as CGI reads it as the proxy it has to use (CVE-2016-5385 and its like).
  'proxy',
]);

/**
 * Whether the origin may take this field (by its lower-case name) for one that says where the client is.
 * Origins with a CGI-like interface see `X_Real_IP` and `X-Real-IP` as one, and so is any other name with an
 * underscore dropped whose own spelling is there as well: two fields would become one.
 */
function isClaim(name: string, headers: RequestFacts['headers']): boolean {
  if (FORWARDING.has(name)) return true;
  if (!name.includes('_')) return false;
  const folded = name.replaceAll('_', '-');
  return FORWARDING.has(folded) || HOP_BY_HOP.has(folded) || SINGULAR.has(folded) || headers.has(folded);
}

/** What only the gate may say about the request, in whatever spelling. */
const SINGULAR = new Set(['content-length', 'content-type', 'host', 'expect']);

export type ForwardOptions = Readonly<{
  /** Host the origin is asked for. */
  host: string;
  /** X-Forwarded-Proto of a trusted proxy, else the listener's own. */
  proto: string;
  /** What goes to the origin as Content-Length; undefined leaves the field out. */
  contentLength: number | undefined;
}>;

/** Flat list of name and value in turn for the origin. */
export function requestHeaders(facts: RequestFacts, options: ForwardOptions): string[] {
  const out: string[] = ['Host', options.host];
  const raw = facts.rawHeaders;
  const named = connectionNames(facts.headers.get('connection'));
  for (let index = 0; index < raw.length; index += 2) {
    const name = raw[index]!.toLowerCase();
    if (name === 'host' || name === 'expect' || HOP_BY_HOP.has(name)) continue;
    if (isClaim(name, facts.headers)) continue;
    if (name === 'content-length' || (named !== undefined && named.has(name))) continue;
    out.push(raw[index]!, raw[index + 1]!);
  }
  if (options.contentLength !== undefined) out.push('Content-Length', String(options.contentLength));
  const { ip, peer, viaProxy } = facts.client;
  out.push('X-Forwarded-For', viaProxy ? `${ip}, ${peer}` : ip, 'X-Real-IP', ip);
  out.push(
    'X-Forwarded-Proto',
    options.proto,
    'X-Forwarded-Host',
    facts.host,
    'X-Request-Id',
    facts.requestId,
  );
  return out;
}

/** Flat list for the client; `bodiless` also drops lengths (204). */
export function responseHeaders(raw: readonly Buffer[], options: { dropLength: boolean }): string[] {
  const out: string[] = [];
  let named: Set<string> | undefined;
  for (let index = 0; index < raw.length; index += 2) {
    const original = raw[index]!.toString('latin1');
    const name = original.toLowerCase();
    const value = raw[index + 1]!.toString('latin1');
    if (name === 'connection') named = connectionNames(value);
    if (name === 'trailer') out.push(original, value);
    else if (!HOP_BY_HOP.has(name) && !(options.dropLength && name === 'content-length'))
      out.push(original, value);
  }
  return named === undefined ? out : withoutNamed(out, named);
}

function withoutNamed(flat: string[], named: ReadonlySet<string>): string[] {
  const out: string[] = [];
  for (let index = 0; index < flat.length; index += 2) {
    if (!named.has(flat[index]!.toLowerCase())) out.push(flat[index]!, flat[index + 1]!);
  }
  return out;
}

const PLAIN_CONNECTION = /^(?:keep-alive|close|upgrade)$/i;
/** A client may not have fields removed that the gate judged by or the origin needs. */
const KEPT = new Set([
  'host',
  'content-length',
  'content-type',
  'cookie',
  'authorization',
  'content-encoding',
]);

function connectionNames(value: string | undefined): Set<string> | undefined {
  if (value === undefined || PLAIN_CONNECTION.test(value)) return undefined;
  const names = new Set<string>();
  for (const part of value.split(',')) {
    const name = part.trim().toLowerCase();
    if (!KEPT.has(name)) names.add(name);
  }
  return names;
}

/** For upgrades, whose headers go on as an object: the same fields dropped, the same added. */
export function rewriteForUpgrade(
  headers: Record<string, unknown>,
  facts: RequestFacts,
  proto: string,
): void {
  for (const name of Object.keys(headers)) if (isClaim(name, facts.headers)) delete headers[name];
  const { ip, peer, viaProxy } = facts.client;
  headers['x-forwarded-for'] = viaProxy ? `${ip}, ${peer}` : ip;
  headers['x-real-ip'] = ip;
  headers['x-forwarded-proto'] = proto;
  headers['x-forwarded-host'] = facts.host;
  headers['x-request-id'] = facts.requestId;
}
