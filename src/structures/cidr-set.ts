/**
 * A large set of addresses and networks: one hash set per prefix length, so a look-up costs one probe for
 * each length in use (lists use a handful). Each hash set is split into shards so that growing it never
 * rehashes more than a 256th of the whole at once: a list can be built in slices without stalling the event
 * loop.
 */
import { maskGroups, maskIpv4, networkContains, parseIpv4, parseIpv6 } from '../core/address.js';
import type { Network } from '../core/address.js';

const SHARDS = 256;

type Shards<K> = (Set<K> | undefined)[];
type Level<K> = { prefix: number; shards: Shards<K> };

export type CidrSet = {
  /** Networks held; duplicates count once. */
  readonly size: number;
  /** False where the very network is already in. */
  add(network: Network): boolean;
  /** True where a network holds the canonical address `ip`; false for text that is no address. */
  has(ip: string): boolean;
  /** True where one held network holds all of `network`. */
  covers(network: Network): boolean;
  /** Some held network in `network`, or the same. Looks at all that are longer: for rare questions. */
  inside(network: Network): Network | undefined;
};

export function createCidrSet(): CidrSet {
  const v4: Level<number>[] = [];
  const v6: Level<string>[] = [];
  let size = 0;
  return {
    get size() {
      return size;
    },
    add(network) {
      const added =
        network.family === 4
          ? insert(levelOf(v4, network.prefix), shardOfIpv4(network.v4), network.v4 | 0)
          : insert(levelOf(v6, network.prefix), shardOfIpv6(network.groups), keyOfIpv6(network.groups));
      if (added) size++;
      return added;
    },
    has(ip) {
      if (size === 0) return false;
      const value = parseIpv4(ip);
      return value >= 0 ? hasIpv4(v4, value, 32) : hasIpv6Text(v6, ip);
    },
    covers(network) {
      if (network.family === 4) return hasIpv4(v4, network.v4, network.prefix);
      scratch.set(network.groups);
      return hasIpv6(v6, network.prefix);
    },
    inside(network) {
      return network.family === 4
        ? firstInside(v4, network, ({ prefix }, key) => ({ family: 4, v4: key >>> 0, prefix }))
        : firstInside(v6, network, ({ prefix }, key) => ({ family: 6, groups: groupsOf(key), prefix }));
    },
  };
}

function firstInside<K>(
  levels: readonly Level<K>[],
  network: Network,
  toNetwork: (level: Level<K>, key: K) => Network,
): Network | undefined {
  for (const level of levels) {
    if (level.prefix < network.prefix) continue;
    for (const shard of level.shards) {
      for (const key of shard ?? []) {
        const held = toNetwork(level, key);
        if (networkContains(network, held)) return held;
      }
    }
  }
  return undefined;
}

function levelOf<K>(levels: Level<K>[], prefix: number): Level<K> {
  const known = levels.find((level) => level.prefix === prefix);
  if (known !== undefined) return known;
  const level: Level<K> = { prefix, shards: new Array<Set<K> | undefined>(SHARDS).fill(undefined) };
  levels.push(level);
  // Longest first, so that one scratch address can be masked shorter and shorter.
  levels.sort((a, b) => b.prefix - a.prefix);
  return level;
}

function insert<K>(level: Level<K>, shard: number, key: K): boolean {
  const set = (level.shards[shard] ??= new Set<K>());
  const before = set.size;
  return set.add(key).size > before;
}

function hasIpv4(levels: readonly Level<number>[], value: number, longest: number): boolean {
  for (const { prefix, shards } of levels) {
    if (prefix > longest) continue;
    const masked = maskIpv4(value, prefix);
    // Signed, because small integers need no heap number in a Set.
    if (shards[shardOfIpv4(masked)]?.has(masked | 0) === true) return true;
  }
  return false;
}

const scratch = new Uint16Array(8);

function hasIpv6Text(levels: readonly Level<string>[], ip: string): boolean {
  return levels.length > 0 && parseIpv6(ip, scratch) && hasIpv6(levels, 128);
}

/** Looks for the address in `scratch`, which it masks away. */
function hasIpv6(levels: readonly Level<string>[], longest: number): boolean {
  for (const { prefix, shards } of levels) {
    if (prefix > longest) continue;
    maskGroups(scratch, prefix);
    if (shards[shardOfIpv6(scratch)]?.has(keyOfIpv6(scratch)) === true) return true;
  }
  return false;
}

function shardOfIpv4(value: number): number {
  return Math.imul(value, 0x9e3779b1) >>> 24;
}

function shardOfIpv6(groups: ArrayLike<number>): number {
  let hash = 0;
  for (let at = 0; at < 8; at++) hash = Math.imul(hash ^ (groups[at] ?? 0), 0x9e3779b1);
  return hash >>> 24;
}

function keyOfIpv6(g: ArrayLike<number>): string {
  return String.fromCharCode(
    g[0] ?? 0,
    g[1] ?? 0,
    g[2] ?? 0,
    g[3] ?? 0,
    g[4] ?? 0,
    g[5] ?? 0,
    g[6] ?? 0,
    g[7] ?? 0,
  );
}

/** The groups behind a key of `keyOfIpv6`. */
function groupsOf(key: string): number[] {
  return Array.from({ length: 8 }, (_, at) => key.charCodeAt(at));
}
