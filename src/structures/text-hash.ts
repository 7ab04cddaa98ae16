/**
 * A fast 53-bit hash of text for sketches and small tables (two multiply-xor lanes, after cyrb53 by bryc,
 * public domain). Not keyed: who can choose the text can make it collide; for estimates only, never for
 * identities.
 */

const HIGH = 4_294_967_296;

/** The two lanes of the last `mix`; read at once, the next call overwrites them. */
export const lanes = { low: 0, high: 0 };

/** Leaves two independent unsigned 32-bit hashes in `lanes`. */
export function mix(text: string): void {
  let a = 0xdeadbeef;
  let b = 0x41c6ce57;
  for (let at = 0; at < text.length; at++) {
    const code = text.charCodeAt(at);
    a = Math.imul(a ^ code, 2_654_435_761);
    b = Math.imul(b ^ code, 1_597_334_677);
  }
  finish(a, b);
}

/** The same for two numbers of 32 bits. */
export function mixPair(one: number, other: number): void {
  const a = Math.imul(0xdeadbeef ^ one, 2_654_435_761) ^ Math.imul(other ^ (other >>> 15), 0x2c1b3c6d);
  const b = Math.imul(0x41c6ce57 ^ other, 1_597_334_677) ^ Math.imul(one ^ (one >>> 15), 0x297a2d39);
  finish(a, b);
}

function finish(one: number, other: number): void {
  let a = one;
  let b = other;
  a = Math.imul(a ^ (a >>> 16), 2_246_822_507) ^ Math.imul(b ^ (b >>> 13), 3_266_489_909);
  b = Math.imul(b ^ (b >>> 16), 2_246_822_507) ^ Math.imul(a ^ (a >>> 13), 3_266_489_909);
  lanes.low = a >>> 0;
  lanes.high = b >>> 0;
}

/** A safe whole number below 2^53, the same in every process. */
export function textHash(text: string): number {
  mix(text);
  return (lanes.high & 0x1fffff) * HIGH + lanes.low;
}

/** A 32-bit one, cheaper (FNV-1a, finished as in MurmurHash3). */
export function hash32(text: string): number {
  let hash = 0x811c9dc5;
  for (let at = 0; at < text.length; at++) hash = Math.imul(hash ^ text.charCodeAt(at), 0x01000193);
  hash = Math.imul(hash ^ (hash >>> 16), 0x85ebca6b);
  hash = Math.imul(hash ^ (hash >>> 13), 0xc2b2ae35);
  return (hash ^ (hash >>> 16)) >>> 0;
}
