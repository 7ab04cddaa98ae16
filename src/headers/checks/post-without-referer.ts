/**
 * A form is posted from a page. Referer may be withheld (policy), Origin may not; API clients with a key have
 * neither, nor do background posts of a browser, whose Sec-Fetch-Mode is not `navigate`.
 */
import type { HeaderCheck } from '../check.js';

export const postWithoutReferer: HeaderCheck = {
  id: 'REFERER-MISSING',
  create(config, about) {
    const points = config.points.noReferer;
    const message = 'a post without Referer and Origin';
    const finding = { id: 'REFERER-MISSING', kind: 'note', points, message } as const;
    return ({ method, headers }) => {
      if (method !== 'POST' || headers.has('referer') || headers.has('origin')) return undefined;
      if (headers.has('authorization')) return undefined;
      if (about.apiKeyHeader !== undefined && headers.has(about.apiKeyHeader)) return undefined;
      const mode = headers.get('sec-fetch-mode');
      if (mode !== undefined && mode !== 'navigate') return undefined;
      const site = headers.get('sec-fetch-site');
      return site === undefined || site === 'none' ? finding : undefined;
    };
  },
};
