/**
 * Who is never banned, for those who make bans: the allowlist as its file is now, and our own addresses. A
 * file that cannot be read is told; then the last good version holds.
 */
import { resolve } from 'node:path';
import { formatNetwork, networkContains, parseNetwork, type Network } from '../core/address.js';
import type { ReputationConfig } from './config.js';
import { createFeed, type FeedDeps } from './feed.js';
import { systemAddresses } from './reputation.js';
import { allowlist } from './sources/allowlist.js';

export type Untouchable = Readonly<{
  /** Never throws; reads the list, then follows its file. */
  start(): Promise<void>;
  isAllowed(network: Network): boolean;
  /** Our own address, or a network that holds one. */
  isOwn(network: Network): boolean;
  /** An entry of the allowlist in `network`, as text. */
  allowedIn(network: Network): string | undefined;
  /** An address or network of our own that overlaps `network`, as text. */
  ownIn(network: Network): string | undefined;
  close(): Promise<void>;
}>;

type Deps = Pick<FeedDeps, 'clock' | 'log'> & Readonly<{ baseDir: string; ownAddresses?: readonly string[] }>;

export function createUntouchable(config: ReputationConfig, deps: Deps): Untouchable {
  const { baseDir, clock, log, ownAddresses = systemAddresses() } = deps;
  const at = (path: string): string => resolve(baseDir, path);
  const own = [...ownAddresses, ...config.ownAddresses]
    .map(parseNetwork)
    .filter((network) => network !== undefined);
  const feed =
    config.allowlist === undefined
      ? undefined
      : createFeed(allowlist(at(config.allowlist)), {
          clock,
          log,
          // The workers keep the copy; two writers of one file would be one too many.
          stateDir: undefined,
          pollMs: config.poll,
          changed: () => undefined,
        });
  const ownIn = (network: Network): Network | undefined =>
    own.find((mine) => networkContains(mine, network) || networkContains(network, mine));
  const textOf = (network: Network | undefined): string | undefined => network && formatNetwork(network);
  return {
    start: async () => feed?.start(),
    isAllowed: (network) => feed?.value()?.covers(network) === true,
    isOwn: (network) => ownIn(network) !== undefined,
    allowedIn: (network) => textOf(feed?.value()?.inside(network)),
    ownIn: (network) => textOf(ownIn(network)),
    close: async () => feed?.close(),
  };
}
