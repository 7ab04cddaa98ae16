/**
 * Whom an operator means, as bans name it: addresses and networks in one spelling, secrets only as their
 * hashes; and whether such a ban may be.
 */
import type { BanTarget } from '../admin/route.js';
import type { Config } from '../config/schema.js';
import type { Subject } from '../controls/ban.js';
import { formatNetwork, maskGroups, networkBehindNat64, parseNetwork } from '../core/address.js';
import type { Network } from '../core/address.js';
import { Fault } from '../core/errors.js';
import type { Identities } from '../core/identity.js';
import { claimedRequest } from '../identity/claimed.js';
import type { Untouchable } from '../reputation/untouchable.js';

export type Target = Readonly<{ subject: Subject; network: Network | undefined; notes: readonly string[] }>;

const FINGERPRINT = /^[\w-]{4,128}$/;

/** `identities`: asked for where a secret is named. Throws a Fault where the text names nobody. */
export function targetOf(given: BanTarget, config: Config, identities: () => Identities): Target {
  const { address, session, key, ja4, headers } = given;
  if (address !== undefined) return networkTarget(address, config.ipv6Prefix);
  const notes: string[] = [];
  for (const [kind, value] of [
    ['ja4', ja4],
    ['headers', headers],
  ] as const) {
    if (value === undefined) continue;
    if (!FINGERPRINT.test(value)) throw unreadable(value, `the ${kind} fingerprint as events show it`);
    return { subject: { kind, value }, network: undefined, notes };
  }
  const claim = { ...(session && { session }), ...(key && { key }) };
  const claimed = claimedRequest(claim, config.identity, config.ipv6Prefix);
  const kind = session === undefined ? 'apiKey' : 'session';
  const hash = claimed && identities().read(kind, claimed.facts, undefined);
  if (hash === undefined) throw unreadable('', `the ${kind === 'session' ? 'cookie' : 'key'} as it is sent`);
  const { hashKeyEnv } = config.identity;
  if (config.redis !== undefined && process.env[hashKeyEnv] === undefined)
    notes.push(`${hashKeyEnv} is not set: only this gate knows this ${kind === 'session' ? 'session' : 'key'}`);
  return { subject: { kind, value: hash }, network: undefined, notes };
}

const unreadable = (text: string, fits: string): Fault =>
  new Fault('BAN_REFUSED', { why: `found ${JSON.stringify(text.slice(0, 60))}`, remedy: `give ${fits}` });

function networkTarget(text: string, ipv6Prefix: number): Target {
  const network = parseNetwork(text.trim());
  if (network === undefined)
    throw unreadable(text, 'an address or network such as 203.0.113.9, 203.0.113.0/24 or 2001:db8::/48');
  const notes: string[] = [];
  const meant = networkBehindNat64(network);
  if (meant === undefined)
    throw new Fault('BAN_REFUSED', {
      why: `${formatNetwork(network)} holds everybody behind NAT64`,
      remedy: 'name the IPv4 address, or 64:ff9b:: with it',
    });
  if (meant !== network)
    notes.push(`${formatNetwork(network)} is how ${formatNetwork(meant)} looks behind NAT64, which is meant`);
  return narrowed(meant, { ipv6Prefix, notes });
}

function narrowed(network: Network, { ipv6Prefix, notes }: { ipv6Prefix: number; notes: string[] }): Target {
  let wide = network;
  if (network.family === 6 && network.prefix > ipv6Prefix) {
    const groups = [...network.groups];
    maskGroups(groups, ipv6Prefix);
    wide = { family: 6, groups, prefix: ipv6Prefix };
    notes.push(`a host moves freely in its /${ipv6Prefix}: all of ${formatNetwork(wide)} is meant`);
  }
  return { subject: { kind: 'network', value: formatNetwork(wide) }, network: wide, notes };
}

/** `t13d1516h2_8daaf6152771_b186095e22b6`, as FoxIO writes it. */
const JA4 = /^[tqd](?:1[0-3]|s[23]|d[1-3]|00)[di]\d{4}[0-9a-zA-Z]{2}_[0-9a-f]{12}_[0-9a-f]{12}$/;
/** As core/header-hash makes it. */
const HEADER_HASH = /^[\w-]{16}$/;

/**
 * Throws BAN_REFUSED for a fingerprint that no request can have. Answers what else there is to say. Not for
 * lifting: whatever is in the book can be lifted.
 */
export function checkForm({ kind, value }: Subject): readonly string[] {
  if (kind === 'headers' && !HEADER_HASH.test(value))
    throw unreadable(value, 'the 16 letters and digits of `headerHash` in an event');
  if (kind !== 'ja4') return [];
  if (!JA4.test(value))
    throw unreadable(value, 'a JA4 fingerprint such as t13d1516h2_8daaf6152771_b186095e22b6');
  return ['no event carries a JA4 fingerprint yet: until then this ban has no effect'];
}

export type Rules = Readonly<{
  untouchable: Untouchable;
  widest: Config['reputation']['widest'];
  force: boolean;
}>;

/** Throws BAN_REFUSED where a ban on this network would do harm, or nothing. */
export function refuseHarm(network: Network, { untouchable, widest, force }: Rules): void {
  const refuse = (why: string, remedy: string): never => {
    throw new Fault('BAN_REFUSED', { why, remedy });
  };
  const text = formatNetwork(network);
  const family = network.family === 4 ? 'ipv4' : 'ipv6';
  if (network.prefix === 0) refuse(`${text} is everybody`, 'name who is meant');
  if (network.prefix < widest[family])
    refuse(
      `${text} is wider than /${widest[family]}, the widest allowed`,
      `ban narrower networks; reputation.widest.${family} says how wide one may be`,
    );
  const own = untouchable.ownIn(network);
  if (own !== undefined) refuse(`${text} holds or is in ${own}, which is our own`, 'name narrower networks');
  if (untouchable.isAllowed(network))
    refuse(`${text} is on the allowlist, which wins over bans`, 'take it off reputation.allowlist first');
  const allowed = untouchable.allowedIn(network);
  if (allowed !== undefined && !force)
    refuse(`${text} holds ${allowed} of the allowlist`, `--force bans the rest of it; ${allowed} stays welcome`);
}
