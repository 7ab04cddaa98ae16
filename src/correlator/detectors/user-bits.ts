/**
 * About which users one address tried, in 32 bits: linear counting (Whang and others 1990). Within some per
 * cent up to 30 users; a full one stands for 111 and more.
 */
import { hash32 } from '../../structures/text-hash.js';

const BITS = 32;

export const userBit = (user: string): number => (1 << (hash32(user) & (BITS - 1))) >>> 0;

export const withUsers = (bits: number, more: number): number => (bits | more) >>> 0;

export function bitCount(bits: number): number {
  let count = 0;
  for (let rest = bits; rest !== 0; rest = (rest & (rest - 1)) >>> 0) count++;
  return count;
}

/** Estimate of how many users were added. */
export function userCount(bits: number): number {
  return -BITS * Math.log(Math.max(BITS - bitCount(bits), 1) / BITS);
}

/** True where all users of `bits` are (most likely) among `others`. */
export const areAmong = (bits: number, others: number): boolean => (bits & ~others) === 0;
