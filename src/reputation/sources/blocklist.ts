/**
 * Addresses and networks that are refused at once. Public lists carry private, far too wide and the
 * operator's own ranges; these are skipped, since obeying them would shut the site (firehol/blocklist-ipsets
 * #281, #70).
 */
import { maskGroups, networkContains, parseNetwork } from '../../core/address.js';
import type { Network } from '../../core/address.js';
import type { CidrSet } from '../../structures/cidr-set.js';
import { readNetworkList } from '../network-list.js';
import type { Admit } from '../network-list.js';
import type { Source } from '../source.js';

/**
 * Loopback, private, link-local, shared, multicast and reserved space (RFC 6890). Documentation ranges are
 * not among them.
 */
const SPECIAL = [
  '0.0.0.0/8',
  '10.0.0.0/8',
  '100.64.0.0/10',
  '127.0.0.0/8',
  '169.254.0.0/16',
  '172.16.0.0/12',
  '192.168.0.0/16',
  '224.0.0.0/3',
  '::/127',
  'fc00::/7',
  'fe80::/10',
  'ff00::/8',
]
  .map(parseNetwork)
  .filter((network) => network !== undefined);

export type BlocklistRules = Readonly<{
  widest: Readonly<{ ipv4: number; ipv6: number }>;
  /** What a single IPv6 address covers: its host can move freely in it. */
  ipv6Prefix: number;
  own: readonly string[];
  isAllowed(network: Network): boolean;
}>;

export function blocklist(file: string, rules: BlocklistRules): Source<CidrSet> {
  const admit = createAdmit(rules);
  return { feed: 'blocklist', from: { file }, read: (input) => readNetworkList(input, admit) };
}

function createAdmit(rules: BlocklistRules): Admit {
  const own = rules.own.map(parseNetwork).filter((network) => network !== undefined);
  return (network) => {
    const widest = network.family === 4 ? rules.widest.ipv4 : rules.widest.ipv6;
    if (network.prefix < widest) return 'wider than allowed';
    if (SPECIAL.some((special) => overlaps(special, network))) return 'private or reserved';
    if (rules.isAllowed(network)) return 'on the allowlist';
    const stored = widened(network, rules.ipv6Prefix);
    if (own.some((mine) => overlaps(mine, stored))) return 'an address of our own';
    return stored;
  };
}

function overlaps(a: Network, b: Network): boolean {
  return networkContains(a, b) || networkContains(b, a);
}

function widened(network: Network, ipv6Prefix: number): Network {
  if (network.family === 4 || network.prefix !== 128) return network;
  const groups = [...network.groups];
  maskGroups(groups, ipv6Prefix);
  return { family: 6, groups, prefix: ipv6Prefix };
}
