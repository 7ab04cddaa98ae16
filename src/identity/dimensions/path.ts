/** The clean path: decoded once, dot segments removed. For joined identities such as { all: [ip, path] }. */
import type { Dimension } from '../dimension.js';

export const path: Dimension = { name: 'path', inBody: false, read: (facts) => facts.cleanPath };
