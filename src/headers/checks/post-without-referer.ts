/** A form is posted from a page. Referer may be withheld (policy), Origin may not; API clients with a key have neither. */
import type { HeaderCheck } from '../check.js';

export const postWithoutReferer: HeaderCheck = {
  id: 'REFERER-MISSING',
  create(config, about) {
    const points = config.points.noReferer;
    const finding = { id: 'REFERER-MISSING', kind: 'note', points, message: 'a post without Referer and Origin' } as const;
    return ({ method, headers }) => {
      if (method !== 'POST' || headers.has('referer') || headers.has('origin') || headers.has('authorization')) return undefined;
      if (about.apiKeyHeader !== undefined && headers.has(about.apiKeyHeader)) return undefined;
      const site = headers.get('sec-fetch-site');
      return site === undefined || site === 'none' ? finding : undefined;
    };
  },
};
