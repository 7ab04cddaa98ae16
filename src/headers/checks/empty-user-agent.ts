/** Every browser and nearly every honest program names itself. */
import type { HeaderCheck } from '../check.js';

export const emptyUserAgent: HeaderCheck = {
  id: 'UA-EMPTY',
  create(config) {
    const points = config.points.emptyUserAgent;
    const finding = {
      id: 'UA-EMPTY',
      kind: 'note',
      points,
      message: 'no User-Agent, or an empty one',
    } as const;
    return (facts) => ((facts.headers.get('user-agent') ?? '').trim() === '' ? finding : undefined);
  },
};
