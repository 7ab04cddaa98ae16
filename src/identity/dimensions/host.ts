/** The canonical host name, for limits that hold per site. */
import type { Dimension } from '../dimension.js';

export const host: Dimension = { name: 'host', inBody: false, read: (facts) => facts.host || undefined };
