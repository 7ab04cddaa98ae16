/**
 * From what the parser handed over to the one canonical request, or the reason why it cannot be read in one
 * way only (RFC 9112 sections 3.2, 5 and 6; RFC 9110 section 5.3). Node's parser has already refused what it
 * knows; this catches what it lets through: duplicates of single-value headers, absolute forms, header lists
 * it cut off.
 */
import type { ClientFacts, RequestFacts } from '../core/request.js';
import { clientOf, type ClientSettings } from './client-address.js';
import { canonicalHost } from './host.js';

export type FactsInput = Readonly<{
  requestId: string;
  receivedAtMs: number;
  method: string;
  /** The request target as received. */
  target: string;
  httpVersion: string;
  rawHeaders: readonly string[];
  /** Address of the socket's other end. */
  peer: string;
  /** Source address out of a PROXY protocol header, from a trusted peer. */
  proxied: string | undefined;
  scheme: 'http' | 'https';
  /** TLS server name (RFC 6066 section 3), where the client sent one. */
  serverName?: string | undefined;
}>;

export type FactsSettings = ClientSettings &
  Readonly<{
    headersMax: number;
    siteOf: (host: string) => string | undefined;
    /** The site that gets unknown hosts' name in logs when they are served. */
    fallbackSite: string;
  }>;

export type FramingProblem = Readonly<{ problem: string; status: 400 | 421 | 501 | 503 | 505; id: string }>;

const SINGLE = new Set([
  'host',
  'content-length',
  'content-type',
  'user-agent',
  'authorization',
  'referer',
  'from',
  'origin',
  'expect',
  'if-modified-since',
  'if-unmodified-since',
  'max-forwards',
  'proxy-authorization',
  'transfer-encoding',
  'content-location',
]);
const TARGET_BAD = /[\x00-\x20\x7f#]/;
const UNFORWARDABLE = /[^\x21-\xff]/;

/** Builds the canonical request; a `problem` means: answer with its status and close. */
export function buildFacts(input: FactsInput, settings: FactsSettings): RequestFacts | FramingProblem {
  const headers = new Map<string, string>();
  if (input.httpVersion !== '1.1' && input.httpVersion !== '1.0') return otherVersion(input.httpVersion);
  const bad = readHeaders(input, settings, headers);
  if (bad !== undefined) return bad;
  const hostHeader = headers.get('host');
  if (hostHeader === undefined && input.httpVersion !== '1.0')
    return malformed('HOST-MISSING', 'no Host header');
  const host = hostHeader === undefined || hostHeader === '' ? '' : canonicalHost(hostHeader);
  if (host === undefined) return malformed('HOST-MALFORMED', 'the Host header is not a host');
  let target = input.target;
  if (target.charCodeAt(0) !== 0x2f) {
    const absolute = originForm(input, host);
    if (typeof absolute !== 'string') return absolute;
    target = absolute;
  }
  if (TARGET_BAD.test(target) || UNFORWARDABLE.test(target)) {
    return malformed('TARGET-MALFORMED', 'the request target has a character that may not stand there');
  }
  return misdirected(input.serverName, host, settings) ?? finish(input, settings, { headers, host, target });
}

/**
 * A connection that was opened for one site may not carry requests for another (RFC 9110 section 7.4): what
 * stands in front by server name and what judges by host would see two sites. Names of no site say nothing.
 */
function misdirected(
  serverName: string | undefined,
  host: string,
  settings: FactsSettings,
): FramingProblem | undefined {
  if (serverName === undefined) return undefined;
  const opened = settings.siteOf(canonicalHost(serverName) ?? '');
  const asked = settings.siteOf(host);
  if (opened === undefined || asked === undefined || opened === asked) return undefined;
  return { id: 'HOST-MISDIRECTED', problem: 'the TLS server name and the Host name two sites', status: 421 };
}

type Parsed = { headers: Map<string, string>; host: string; target: string };

function finish(input: FactsInput, settings: FactsSettings, parsed: Parsed): RequestFacts {
  const { headers, host, target } = parsed;
  const mark = target.indexOf('?');
  const path = mark < 0 ? target : target.slice(0, mark);
  const site = settings.siteOf(host);
  const length = headers.get('content-length');
  const contentLength = length === undefined ? undefined : Number(length);
  const client: ClientFacts = clientOf(input, headers.get('x-forwarded-for'), settings);
  return {
    requestId: input.requestId,
    receivedAtMs: input.receivedAtMs,
    site: site ?? settings.fallbackSite,
    unknownHost: site === undefined,
    method: input.method,
    target,
    path,
    query: mark < 0 ? '' : target.slice(mark + 1),
    cleanPath: cleanPath(path),
    httpVersion: input.httpVersion,
    scheme: input.scheme,
    host,
    rawHeaders: input.rawHeaders,
    headers,
    client,
    hasBody: headers.has('transfer-encoding') || (contentLength !== undefined && contentLength > 0),
    contentLength,
  };
}

function readHeaders(
  input: FactsInput,
  settings: FactsSettings,
  headers: Map<string, string>,
): FramingProblem | undefined {
  const raw = input.rawHeaders;
  if (raw.length > settings.headersMax * 2) {
    return malformed('HEADERS-TOO-MANY', `more than ${settings.headersMax} header fields`);
  }
  for (let index = 0; index < raw.length; index += 2) {
    const name = raw[index]!.toLowerCase();
    const value = raw[index + 1]!;
    const known = headers.get(name);
    if (known === undefined) headers.set(name, value);
    else if (SINGLE.has(name)) return malformed('HEADER-DUPLICATE', `header ${name} is there more than once`);
    else headers.set(name, name === 'cookie' ? `${known}; ${value}` : `${known}, ${value}`);
  }
  return framing(input, headers);
}

function framing(input: FactsInput, headers: ReadonlyMap<string, string>): FramingProblem | undefined {
  const coding = headers.get('transfer-encoding');
  if (coding === undefined) return undefined;
  if (input.httpVersion === '1.0') return malformed('TE-HTTP10', 'Transfer-Encoding in HTTP/1.0');
  if (headers.has('content-length')) return malformed('CL-TE', 'both Content-Length and Transfer-Encoding');
  if (coding.toLowerCase() !== 'chunked')
    return malformed('TE-UNKNOWN', 'a transfer coding other than chunked');
  return undefined;
}

function originForm(input: FactsInput, host: string): string | FramingProblem {
  const target = input.target;
  if (target === '*' && input.method === 'OPTIONS') return '*';
  const found = /^https?:\/\/([^/?#]*)([/?].*)?$/i.exec(target);
  if (found === null) return malformed('TARGET-MALFORMED', 'the request target is no path');
  if (canonicalHost(found[1] ?? '') !== host) {
    return malformed('HOST-MISMATCH', 'the request target names another host than the Host header');
  }
  const rest = found[2] ?? '/';
  return rest.startsWith('?') ? `/${rest}` : rest;
}

/** A request line without a version is of HTTP/0.9, which no origin is asked in. */
function otherVersion(version: string): FramingProblem {
  if (version === '0.9') return malformed('HTTP-VERSION', 'a request line without an HTTP version');
  return { id: 'HTTP-VERSION', problem: `HTTP/${version} is not spoken here`, status: 505 };
}

function malformed(id: string, problem: string): FramingProblem {
  return { id, problem, status: 400 };
}

const PLAIN_PATH = /^(?:\/[A-Za-z0-9_-][A-Za-z0-9._~-]*)*\/?$/;

/**
 * Percent-decoded once, backslashes as slashes, runs of slashes collapsed, dot segments removed. Never
 * throws.
 */
export function cleanPath(path: string): string {
  if (PLAIN_PATH.test(path)) return path;
  const decoded = path.replace(/%([0-9a-f]{2})/gi, (_, hex: string) =>
    String.fromCharCode(parseInt(hex, 16)),
  );
  const kept: string[] = [];
  const segments = decoded.replace(/\\/g, '/').split('/');
  for (const segment of segments) {
    if (segment === '' || segment === '.') continue;
    if (segment === '..') kept.pop();
    else kept.push(segment);
  }
  const last = segments[segments.length - 1];
  const slash = kept.length > 0 && (last === '' || last === '.' || last === '..') ? '/' : '';
  return `/${kept.join('/')}${slash}`;
}
