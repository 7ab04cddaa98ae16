/**
 * Stage 2: has one of the request's identities used up an allowance? Runs again for identities inside the
 * body.
 */
import type { Limiter } from '../../limits/limiter-contract.js';
import type { Stage } from '../stage.js';

export const limitsStage = (limiter: Limiter): Stage => ({
  name: 'limits',
  judge: (facts, body) => limiter.judge(facts, body === undefined ? undefined : (name) => body.field(name)),
});
