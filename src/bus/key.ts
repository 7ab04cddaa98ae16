/**
 * What events are spread over partitions by: one caller's events stay in order. The session before the API
 * key before the address, as detectors follow them.
 */

type Caller = Readonly<{ session?: string | undefined; apiKey?: string | undefined; key: string }>;

export const keyOf = ({ session, apiKey, key }: Caller): string => session ?? apiKey ?? key;

/** FNV-1a over the code units (Fowler, Noll, Vo), 32 bits, unsigned. */
export function fnv1a(text: string, seed = 0x811c9dc5): number {
  let hash = seed;
  for (let index = 0; index < text.length; index++) {
    hash = Math.imul(hash ^ text.charCodeAt(index), 0x01000193);
  }
  return hash >>> 0;
}
