/**
 * Addresses and networks that reputation never refuses. A network as wide as the whole Internet is taken as
 * an error; an empty file is an empty list, with a warning.
 */
import type { Network } from '../../core/address.js';
import type { CidrSet } from '../../structures/cidr-set.js';
import { readNetworkList } from '../network-list.js';
import type { FeedFile, Source, Version } from '../source.js';

export function allowlist(file: string): Source<CidrSet> {
  return { feed: 'allowlist', from: { file }, read: (input) => readAllowed(input, () => undefined) };
}

/** Hands each network over as well. Throws FEED_*. */
export function readAllowed(file: FeedFile, take: (network: Network) => void): Promise<Version<CidrSet>> {
  return readNetworkList({ ...file, mayBeBlank: true }, (network) => {
    if (network.prefix === 0) return 'it would allow everybody';
    take(network);
    return network;
  });
}
