/** Every feed of the engine, built from the config; a feed that is not configured is absent. */
import { resolve } from 'node:path';
import type { Network } from '../../core/address.js';
import type { CidrSet } from '../../structures/cidr-set.js';
import type { ReputationConfig } from '../config.js';
import { createFeed } from '../feed.js';
import type { Feed, FeedDeps } from '../feed.js';
import type { Source } from '../source.js';
import { allowlist } from './allowlist.js';
import { asn } from './asn.js';
import type { AsnLookup } from './asn.js';
import { blocklist } from './blocklist.js';
import { tor } from './tor.js';

export type Feeds = Readonly<{
  allowlist: Feed<CidrSet> | undefined;
  blocklist: Feed<CidrSet> | undefined;
  tor: Feed<CidrSet> | undefined;
  asn: Feed<AsnLookup> | undefined;
  /** In the order in which they start: the blocklist asks the allowlist. */
  all: readonly Feed<unknown>[];
}>;

type Place = Readonly<{ baseDir: string; own: readonly string[] }>;

export function createFeeds(config: ReputationConfig, place: Place, deps: FeedDeps): Feeds {
  const at = (path: string): string => resolve(place.baseDir, path);
  const feedOf = <T>(source: Source<T> | undefined) =>
    source === undefined ? undefined : createFeed(source, deps);
  const allowed = feedOf(config.allowlist === undefined ? undefined : allowlist(at(config.allowlist)));
  const isAllowed = (network: Network): boolean => allowed?.value()?.covers(network) === true;
  const { widest, ipv6Prefix } = config;
  const rules = { widest, ipv6Prefix, own: [...place.own, ...config.ownAddresses], isAllowed };
  const feeds = {
    allowlist: allowed,
    blocklist: feedOf(config.blocklist === undefined ? undefined : blocklist(at(config.blocklist), rules)),
    tor: feedOf(config.tor === undefined ? undefined : tor(torFrom(config.tor, at))),
    asn: feedOf(config.asn === undefined ? undefined : asn(at(config.asn.database))),
  };
  const all = [feeds.allowlist, feeds.blocklist, feeds.tor, feeds.asn].filter((feed) => feed !== undefined);
  return { ...feeds, all };
}

function torFrom(config: NonNullable<ReputationConfig['tor']>, at: (path: string) => string) {
  if (config.file !== undefined) return { file: at(config.file) };
  return { url: config.url ?? '', refreshMs: config.refresh, timeoutMs: config.timeout };
}
