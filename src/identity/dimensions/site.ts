/** The name of the site: the same for all its hosts, also for those of a wildcard, which clients choose. */
import type { Dimension } from '../dimension.js';

export const site: Dimension = { name: 'site', inBody: false, read: (facts) => facts.site };
