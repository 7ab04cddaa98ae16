/** Every header check, in the order in which they run. */
import type { HeaderCheck } from '../check.js';
import { automationSignature } from './automation-signature.js';
import { emptyUserAgent } from './empty-user-agent.js';
import { headerCrlf } from './header-crlf.js';
import { noAccept } from './no-accept.js';
import { postWithoutReferer } from './post-without-referer.js';

export const HEADER_CHECKS: readonly HeaderCheck[] = [
  headerCrlf,
  emptyUserAgent,
  automationSignature,
  noAccept,
  postWithoutReferer,
];
