/**
 * Addresses and networks that reputation never refuses. A network as wide as the whole Internet is taken as
 * an error.
 */
import type { CidrSet } from '../../structures/cidr-set.js';
import { readNetworkList } from '../network-list.js';
import type { Source } from '../source.js';

export function allowlist(file: string): Source<CidrSet> {
  return {
    feed: 'allowlist',
    from: { file },
    read: (input) =>
      readNetworkList(input, (network) => (network.prefix === 0 ? 'it would allow everybody' : network)),
  };
}
