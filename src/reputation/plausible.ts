/** Whether a new version of a list may take the place of the one before. */
import { implausible } from './lines.js';
import type { FeedFile, Version } from './source.js';

/** Below this many entries a change of any size is plausible. */
const JUDGED_FROM = 100;
const GROWTH_MAX = 20;
const SHRINK_MIN = 0.05;

/**
 * `before`: entries of the version in force. Throws FEED_IMPLAUSIBLE for a list that has suddenly become
 * empty or of another size altogether.
 */
export function refuseImplausible(
  origin: Pick<FeedFile, 'feed' | 'from'>,
  before: number,
  { entries, isBlank }: Pick<Version<unknown>, 'entries' | 'isBlank'>,
): void {
  if (before > 0 && isBlank === true) {
    throw implausible(origin, `empty after ${before} entries (where that is meant, leave a comment in it)`);
  }
  if (before < JUDGED_FROM) return;
  if (entries > before * GROWTH_MAX) throw implausible(origin, `${entries} entries after ${before}`);
  if (entries <= before * SHRINK_MIN) throw implausible(origin, `only ${entries} entries after ${before}`);
}
