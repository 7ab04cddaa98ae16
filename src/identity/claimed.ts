/**
 * A request as somebody would have sent it, from what an operator knows of them: so that keys, hashes and
 * policies come out exactly as in the gate. The raw secrets go no further than the identities' own hashes.
 */
import { behindNat64, canonicalAddress, prefixKey } from '../core/address.js';
import type { FieldReader, IdentityName } from '../core/identity.js';
import type { RequestFacts } from '../core/request.js';
import type { IdentityConfig } from './config.js';

/** Whatever is absent is not known. `path` without a query. */
export type Claim = Readonly<
  Partial<Record<'ip' | 'session' | 'key' | 'user' | 'method' | 'host' | 'path' | 'site', string>>
>;

const WIDE_PREFIX = 56;

export type Claimed = Readonly<{
  facts: RequestFacts;
  field: FieldReader;
  given: ReadonlySet<IdentityName>;
}>;

/** Undefined where `ip` is no address. */
export function claimedRequest(
  claim: Claim,
  config: IdentityConfig,
  ipv6Prefix: number,
): Claimed | undefined {
  const given = claim.ip === undefined ? '0.0.0.0' : canonicalAddress(claim.ip);
  if (given === undefined) return undefined;
  const ip = behindNat64(given);
  const headers = new Map<string, string>();
  if (claim.session !== undefined) headers.set('cookie', `${config.session.cookie}=${claim.session}`);
  if (claim.key !== undefined) headers.set(config.apiKey.header.toLowerCase(), claim.key);
  nameUser(headers, claim.user, config);
  const path = claim.path ?? '/';
  const facts: RequestFacts = {
    requestId: 'limits',
    receivedAtMs: 0,
    site: claim.site ?? 'unknown',
    unknownHost: false,
    method: (claim.method ?? 'GET').toUpperCase(),
    target: path,
    path,
    query: '',
    cleanPath: path,
    httpVersion: '1.1',
    scheme: 'http',
    host: (claim.host ?? '').toLowerCase(),
    rawHeaders: [],
    headers,
    client: {
      ip,
      key: prefixKey(ip, ipv6Prefix),
      wideKey: prefixKey(ip, Math.min(WIDE_PREFIX, ipv6Prefix)),
      peer: ip,
      viaProxy: false,
    },
    hasBody: true,
    contentLength: undefined,
  };
  return { facts, field: () => claim.user, given: givenBy(claim) };
}

function nameUser(headers: Map<string, string>, user: string | undefined, config: IdentityConfig): void {
  const { header, jwtClaim } = config.user;
  if (user === undefined) return;
  if (header !== undefined) headers.set(header.toLowerCase(), user);
  else if (jwtClaim !== undefined) {
    const payload = jwtClaim
      .split('.')
      .reduceRight<unknown>((inner, name) => Object.fromEntries([[name, inner]]), user);
    const text = Buffer.from(JSON.stringify(payload)).toString('base64url');
    headers.set('authorization', `Bearer e30.${text}.`);
  }
}

function givenBy(claim: Claim): Set<IdentityName> {
  const given = new Set<IdentityName>();
  if (claim.ip !== undefined) given.add('ip').add('wideIp');
  if (claim.session !== undefined) given.add('session');
  if (claim.key !== undefined) given.add('apiKey');
  if (claim.user !== undefined) given.add('user');
  if (claim.path !== undefined) given.add('path');
  if (claim.host !== undefined) given.add('host');
  if (claim.site !== undefined) given.add('site');
  return given;
}
