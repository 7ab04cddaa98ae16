/**
 * Walks the search tree of a MaxMind DB (format 2.0, "Binary Search Tree Section") for an IPv4 address: the
 * general reader spends most of its time on the address text, which is already known to be canonical here.
 */

type Shape = Readonly<{ nodeCount: number; recordSize: number; ipVersion: number }>;

/**
 * Record at which the walk for an unsigned IPv4 address ends: above `nodeCount` it points to data, else
 * unknown.
 */
export type Walk = (address: number) => number;

/** Undefined for a record size other than 24, 28 or 32 bits. */
export function createIpv4Walk(bytes: Buffer, { nodeCount, recordSize, ipVersion }: Shape): Walk | undefined {
  const record = recordReader(bytes, recordSize);
  if (record === undefined) return undefined;
  let root = 0;
  // In an IPv6 tree, IPv4 lies below ::/96.
  if (ipVersion === 6) for (let depth = 0; depth < 96 && root < nodeCount; depth++) root = record(root, 0);
  return (address) => {
    let node = root;
    for (let bit = 31; bit >= 0 && node < nodeCount; bit--) node = record(node, (address >>> bit) & 1);
    return node;
  };
}

function recordReader(
  bytes: Buffer,
  recordSize: number,
): ((node: number, side: number) => number) | undefined {
  const byte = (at: number): number => bytes[at] ?? 0;
  const low = (at: number): number => (byte(at) << 16) | (byte(at + 1) << 8) | byte(at + 2);
  if (recordSize === 24) return (node, side) => low(node * 6 + side * 3);
  if (recordSize === 32)
    return (node, side) => byte(node * 8 + side * 4) * 0x1000000 + low(node * 8 + side * 4 + 1);
  if (recordSize !== 28) return undefined;
  return (node, side) => {
    const at = node * 7;
    const high = side === 0 ? byte(at + 3) >>> 4 : byte(at + 3) & 15;
    return (high << 24) | low(at + side * 4);
  };
}
