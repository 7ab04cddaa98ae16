/**
 * Stage 2: has one of the request's identities used up an allowance? Runs again for identities inside the
 * body.
 */
import { NO_FINDINGS } from '../../core/finding.js';
import type { Limiter } from '../../limits/limiter-contract.js';
import type { Stage } from '../stage.js';

export const limitsStage = (limiter: Limiter): Stage => ({
  name: 'limits',
  judge(facts, body) {
    if (body === undefined) return limiter.judge(facts, undefined);
    // A body is judged piece by piece, but counted once.
    return body.identified ? limiter.judge(facts, (name) => body.field(name)) : NO_FINDINGS;
  },
});
