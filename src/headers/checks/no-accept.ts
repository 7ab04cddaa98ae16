/**
 * Browsers send Accept with everything except some background fetches, which carry Sec-Fetch fields instead.
 */
import type { HeaderCheck } from '../check.js';

export const noAccept: HeaderCheck = {
  id: 'ACCEPT-MISSING',
  create(config) {
    const points = config.points.noAccept;
    const finding = { id: 'ACCEPT-MISSING', kind: 'note', points, message: 'no Accept header' } as const;
    return ({ headers }) => (headers.has('accept') || headers.has('sec-fetch-mode') ? undefined : finding);
  },
};
