/**
 * A fingerprint of client software: the names of its header fields, as written and in their order, without
 * those that come and go between requests of one client or are set by proxies on the way. A fingerprint, not
 * a secret: whoever sends the same names has the same hash.
 */
import { createHash } from 'node:crypto';
import { LRUCache } from 'lru-cache';

const MEMO_MAX = 1024;
const CHARS_MAX = 2048;
const HASH_LENGTH = 16;

/** Lower case. */
const PASSING = new Set([
  ...['host', 'cookie', 'authorization', 'content-length', 'content-type', 'transfer-encoding', 'referer'],
  ...['origin', 'range', 'if-none-match', 'if-modified-since', 'if-match', 'if-range', 'cache-control'],
  ...['pragma', 'connection', 'upgrade', 'forwarded', 'via', 'x-real-ip', 'x-request-id'],
  ...['traceparent', 'tracestate'],
]);

const memo = new LRUCache<string, string>({ max: MEMO_MAX });

/** `rawHeaders`: name and value in turn, as received. 16 base64url characters. */
export function headerHash(rawHeaders: readonly string[]): string {
  let names = '';
  for (let at = 0; at < rawHeaders.length && names.length < CHARS_MAX; at += 2)
    names += `${rawHeaders[at]}\n`;
  let hash = memo.get(names);
  if (hash === undefined) {
    const lasting = names
      .split('\n')
      .filter((name) => !PASSING.has(name.toLowerCase()) && !/^x-forwarded-/i.test(name));
    hash = createHash('sha256').update(lasting.join('\n'), 'latin1').digest('base64url').slice(0, HASH_LENGTH);
    memo.set(names, hash);
  }
  return hash;
}
