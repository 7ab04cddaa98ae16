/**
 * The path in the spelling that policies match: letter case, path parameters and a format ending make no
 * other bucket. For joined identities such as { all: [ip, path] }.
 */
import { foldPath, withoutFormat } from '../../core/fold-path.js';
import type { Dimension } from '../dimension.js';

export const path: Dimension = {
  name: 'path',
  inBody: false,
  read: (facts) => withoutFormat(foldPath(facts.cleanPath)),
};
