/** The canonical host name. Under a wildcard clients choose it: a limit on a whole site counts by `site`. */
import type { Dimension } from '../dimension.js';

export const host: Dimension = { name: 'host', inBody: false, read: (facts) => facts.host || undefined };
