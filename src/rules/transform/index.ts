/**
 * Everything that runs, in order: decoders round by round to a fixpoint, then the views of each decoded form.
 */
import { doctype } from './doctype.js';
import { entities } from './entities.js';
import { escapes } from './escapes.js';
import { hosts } from './hosts.js';
import { percent } from './percent.js';
import type { Transformation } from './transformation.js';
import { fullWidth } from './utf8.js';
import { utf7 } from './utf7.js';
import { commentsToNothing, commentsToSpace, concat, invisible, path, shell } from './views.js';

export const DECODERS: readonly Transformation[] = [percent, entities, escapes, fullWidth, utf7];

export const VIEWS: readonly Transformation[] = [
  commentsToSpace,
  commentsToNothing,
  concat,
  shell,
  path,
  doctype,
  hosts,
];

export { invisible };

/** Names that a rule may list under `transformations`. */
export const TRANSFORMATION_NAMES: ReadonlySet<string> = new Set([
  'url',
  'base64',
  'utf8',
  invisible.name,
  ...DECODERS.map(({ name }) => name),
  ...VIEWS.map(({ name }) => name),
]);
