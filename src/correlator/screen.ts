/** Who is never banned, whatever was found: the allowlist, our own addresses, networks that are too wide. */
import type { Subject } from '../controls/ban.js';
import { parseNetwork, type Network } from '../core/address.js';
import { isWelcome, type Claim } from './claims.js';
import type { Crawlers } from './crawlers.js';

export type Screen = Readonly<{
  /** Why this one is not banned; undefined where nothing speaks against it. */
  refuses(subject: Subject): string | undefined;
  /** The crawler that a user agent claims to be; undefined for none. */
  claimOf(userAgent: string): string | undefined;
  /**
   * True for a crawler that proves who it is, or where nobody can tell now. `claims`: addresses of the
   * subject that called themselves one. Takes a bounded time and never rejects.
   */
  isCrawler(subject: Subject, claims: readonly Claim[]): Promise<boolean>;
}>;

export type ScreenRules = Readonly<{
  isAllowed: (network: Network) => boolean;
  /** An address of our own, or a network that holds one. */
  isOwn: (network: Network) => boolean;
  /** Shortest prefixes, as in `reputation.widest`. */
  widest: Readonly<{ ipv4: number; ipv6: number }>;
  /** Absent: nobody is one. */
  crawlers?: Crawlers;
}>;

export function createScreen(rules: ScreenRules): Screen {
  return {
    refuses({ kind, value }) {
      if (kind !== 'network') return undefined;
      const network = parseNetwork(value);
      if (network === undefined) return 'no address';
      const widest = network.family === 4 ? rules.widest.ipv4 : rules.widest.ipv6;
      if (network.prefix < widest) return `wider than /${widest}`;
      if (rules.isAllowed(network)) return 'on the allowlist';
      return rules.isOwn(network) ? 'an address of our own' : undefined;
    },
    claimOf: (userAgent) => rules.crawlers?.claimOf(userAgent),
    isCrawler: async (_, claims) => rules.crawlers !== undefined && isWelcome(rules.crawlers, claims),
  };
}
