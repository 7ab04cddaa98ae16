/** Who is never banned, whatever was found: the allowlist, our own addresses, networks that are too wide. */
import type { Subject } from '../controls/ban.js';
import { networkContains, parseNetwork, type Network } from '../core/address.js';

export type Screen = Readonly<{
  /** Why this one is not banned; undefined where nothing speaks against it. */
  refuses(subject: Subject): string | undefined;
  /** True for a crawler that proves who it is. Takes a bounded time and never rejects. */
  isCrawler(subject: Subject): Promise<boolean>;
}>;

export type ScreenRules = Readonly<{
  isAllowed: (network: Network) => boolean;
  /** Addresses and networks of our own. */
  own: readonly string[];
  /** Shortest prefixes, as in `reputation.widest`. */
  widest: Readonly<{ ipv4: number; ipv6: number }>;
  isCrawler?: Screen['isCrawler'];
}>;

export function createScreen(rules: ScreenRules): Screen {
  const own = rules.own.map(parseNetwork).filter((network) => network !== undefined);
  return {
    refuses({ kind, value }) {
      if (kind !== 'network') return undefined;
      const network = parseNetwork(value);
      if (network === undefined) return 'no address';
      const widest = network.family === 4 ? rules.widest.ipv4 : rules.widest.ipv6;
      if (network.prefix < widest) return `wider than /${widest}`;
      if (rules.isAllowed(network)) return 'on the allowlist';
      const isOwn = own.some((mine) => networkContains(mine, network) || networkContains(network, mine));
      return isOwn ? 'an address of our own' : undefined;
    },
    isCrawler: rules.isCrawler ?? (async () => false),
  };
}
