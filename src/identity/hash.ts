/**
 * Keyed hashes (HMAC-SHA-256, RFC 2104, cut to 132 bits) that stand for sessions, API keys and users in
 * counters and logs. All workers must be given the same key, or they would count one identity under several
 * names.
 */
import { createHmac, randomBytes } from 'node:crypto';
import { LRUCache } from 'lru-cache';

const HASH_LENGTH = 22;
const MEMO_MAX = 4096;
const MEMO_VALUE_MAX = 128;

export type KeyedHash = (value: string) => string;

/**
 * A key for one run of the gate, made by the supervisor where the config names none: 256 random bits in hex.
 */
export function randomHashKey(): string {
  return randomBytes(32).toString('hex');
}

/** `key` must be the same text in every process that shares counters; answers 22 base64url characters. */
export function createKeyedHash(key: string): KeyedHash {
  const memo = new LRUCache<string, string>({ max: MEMO_MAX });
  const hash: KeyedHash = (value) =>
    createHmac('sha256', key).update(value).digest('base64url').slice(0, HASH_LENGTH);
  return (value) => {
    // Long values are not kept: 4096 headers of 16 KB each would be 64 MB.
    if (value.length > MEMO_VALUE_MAX) return hash(value);
    const known = memo.get(value);
    if (known !== undefined) return known;
    const made = hash(value);
    memo.set(value, made);
    return made;
  };
}
