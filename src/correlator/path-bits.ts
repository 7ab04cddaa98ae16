/**
 * About how many distinct paths were seen, in 256 bits: linear counting (Whang and others 1990). Within some
 * per cent up to 500 paths, and never above 1 420.
 */
import { hash32 } from '../structures/text-hash.js';
import { textOf } from './saved.js';
import type { Saved } from './detector.js';

const BITS = 256;
const WORDS = BITS / 32;

export type PathBits = Uint32Array;

export const createPathBits = (): PathBits => new Uint32Array(WORDS);

export function addPath(bits: PathBits, path: string): void {
  const hash = hash32(path);
  bits[(hash >>> 5) & (WORDS - 1)]! |= 1 << (hash & 31);
}

export function distinctPaths(bits: PathBits): number {
  let set = 0;
  for (const word of bits) for (let rest = word; rest !== 0; rest &= rest - 1) set += 1;
  return -BITS * Math.log(Math.max(BITS - set, 1) / BITS);
}

export function writePathBits(bits: PathBits): Saved {
  return Buffer.from(bits.buffer, bits.byteOffset, bits.byteLength).toString('base64');
}

export function readPathBits(saved: Saved | undefined): PathBits {
  const bytes = Buffer.from(textOf(saved), 'base64');
  if (bytes.length !== WORDS * 4) throw new TypeError('no saved path bits');
  const bits = createPathBits();
  Buffer.from(bits.buffer).set(bytes);
  return bits;
}
