/**
 * Whether a login is out of order rather than under attack: people got in all the time, now nobody does, and
 * there are no more attempts than the same people make when they try again.
 */
import type { Endpoint, LoginPart } from './login-attempts.js';

/** So many good logins make one usual; so many of their usual gaps without any are no accident. */
const GOODS_MIN = 20;
const GAPS = 8;
/** How many times people try again, at most. */
const RETRIES = 15;

type Tide = { goods: number; tries: number; buckets: Set<number> };

/** Asked by name of the endpoint; its latest two buckets are compared with those before. */
export function outages(
  parts: readonly LoginPart[],
  nowMs: number,
  bucketMs: number,
): (name: string, recent: Endpoint) => boolean {
  const before = new Map<string, Tide>();
  for (const { buckets } of parts) {
    for (const [startMs, bucket] of buckets.all()) {
      if (startMs > nowMs - 2 * bucketMs) continue;
      for (const [name, { goods, tries }] of bucket) {
        let tide = before.get(name);
        if (tide === undefined) before.set(name, (tide = { goods: 0, tries: 0, buckets: new Set() }));
        tide.goods += goods;
        tide.tries += tries;
        tide.buckets.add(startMs);
      }
    }
  }
  return (name, { lastGoodMs, tries }) => {
    const tide = before.get(name);
    if (tide === undefined || tide.goods < GOODS_MIN) return false;
    const spanMs = tide.buckets.size * bucketMs;
    const isSilent = nowMs - lastGoodMs > GAPS * (spanMs / tide.goods);
    return isSilent && tries <= RETRIES * 2 * (tide.tries / tide.buckets.size);
  };
}
