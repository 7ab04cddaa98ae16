/**
 * Networks as ranges of text keys that sort as their addresses do, so that both families share one sorted
 * list. Two networks are apart or nested, never half over each other, which makes every question a binary
 * search.
 */
import { parseNetwork, type Network } from '../core/address.js';

/** First and last address of a network; IPv4 keys begin with `4`, IPv6 ones with `6`. */
export type Range = Readonly<{ first: string; last: string }>;

const hex = (value: number, digits: number): string => value.toString(16).padStart(digits, '0');

/** `network` must be masked to its prefix, as `parseNetwork` leaves it. */
export function rangeOf(network: Network): Range {
  if (network.family === 4) {
    const span = network.prefix === 0 ? 0xffff_ffff : 2 ** (32 - network.prefix) - 1;
    return { first: `4${hex(network.v4, 8)}`, last: `4${hex(network.v4 + span, 8)}` };
  }
  let first = '6';
  let last = '6';
  network.groups.forEach((group, at) => {
    const free = 16 - Math.min(16, Math.max(0, network.prefix - at * 16));
    first += hex(group, 4);
    last += hex(group | (2 ** free - 1), 4);
  });
  return { first, last };
}

export const byRange = (a: Range, b: Range): number => {
  if (a.first !== b.first) return a.first < b.first ? -1 : 1;
  // The wider one first.
  return a.last === b.last ? 0 : a.last > b.last ? -1 : 1;
};

/** A fixed set of networks, each with a word on why it is in it. */
export type RangeSet = Readonly<{
  /** Why, for one member that shares an address with `range`; undefined where none does. */
  touching(range: Range): string | undefined;
}>;

/** Text that is no network is left out. Members within wider ones are dropped: the wider one speaks. */
export function createRangeSet(members: readonly (readonly [net: string, why: string])[]): RangeSet {
  const all = members
    .flatMap(([net, why]) => {
      const network = parseNetwork(net);
      return network === undefined ? [] : [{ ...rangeOf(network), why }];
    })
    .sort(byRange);
  const apart: typeof all = [];
  for (const one of all) if (!((apart.at(-1)?.last ?? '') >= one.last)) apart.push(one);
  return {
    touching({ first, last }) {
      let low = 0;
      let high = apart.length;
      while (low < high) {
        const middle = (low + high) >>> 1;
        if ((apart[middle]?.first ?? '') <= last) low = middle + 1;
        else high = middle;
      }
      const nearest = apart[low - 1];
      return nearest !== undefined && nearest.last >= first ? nearest.why : undefined;
    },
  };
}
