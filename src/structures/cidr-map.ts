/**
 * Values by network, with removal: one hash map per prefix length, so a look-up costs one probe for each
 * length in use. For up to some hundred thousand networks; larger fixed lists are a cidr-set.
 */
import { maskGroups, maskIpv4, parseIpv4, parseIpv6 } from '../core/address.js';
import type { Network } from '../core/address.js';

type Key = number | string;
type Level<V> = Readonly<{ prefix: number; values: Map<Key, V> }>;

export type CidrMap<V> = {
  readonly size: number;
  set(network: Network, value: V): void;
  delete(network: Network): boolean;
  /**
   * The first value `accept` takes among the networks that hold the canonical address `ip`, the narrowest
   * first; undefined for text that is no address.
   */
  find(ip: string, accept: (value: V) => boolean): V | undefined;
};

export function createCidrMap<V>(): CidrMap<V> {
  const families = { 4: [] as Level<V>[], 6: [] as Level<V>[] };
  const scratch = new Uint16Array(8);
  let size = 0;
  return {
    get size() {
      return size;
    },
    set(network, value) {
      const { values } = levelOf(families[network.family], network.prefix);
      const before = values.size;
      values.set(keyOf(network), value);
      size += values.size - before;
    },
    delete(network) {
      const levels = families[network.family];
      const at = levels.findIndex(({ prefix }) => prefix === network.prefix);
      const values = levels[at]?.values;
      if (values?.delete(keyOf(network)) !== true) return false;
      size--;
      // A length that is not in use any more costs no probe.
      if (values.size === 0) levels.splice(at, 1);
      return true;
    },
    find(ip, accept) {
      if (size === 0) return undefined;
      const value = parseIpv4(ip);
      if (value < 0 && (families[6].length === 0 || !parseIpv6(ip, scratch))) return undefined;
      for (const { prefix, values } of families[value < 0 ? 6 : 4]) {
        if (value < 0) maskGroups(scratch, prefix);
        const found = values.get(value < 0 ? keyOfIpv6(scratch) : maskIpv4(value, prefix) | 0);
        if (found !== undefined && accept(found)) return found;
      }
      return undefined;
    },
  };
}

function levelOf<V>(levels: Level<V>[], prefix: number): Level<V> {
  const known = levels.find((level) => level.prefix === prefix);
  if (known !== undefined) return known;
  const level: Level<V> = { prefix, values: new Map() };
  levels.push(level);
  // Longest first, so that one scratch address can be masked shorter and shorter.
  levels.sort((a, b) => b.prefix - a.prefix);
  return level;
}

/** Signed, because small integers need no heap number in a Map. */
function keyOf(network: Network): Key {
  return network.family === 4 ? network.v4 | 0 : keyOfIpv6(network.groups);
}

function keyOfIpv6(groups: ArrayLike<number>): string {
  let key = '';
  for (let at = 0; at < 8; at++) key += String.fromCharCode(groups[at] ?? 0);
  return key;
}
