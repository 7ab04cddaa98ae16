/** Stage 1: is this address welcome, banned, or known for something? */
import type { Reputation } from '../../reputation/contract.js';
import type { Stage } from '../stage.js';

export const reputationStage = (reputation: Reputation): Stage => ({
  name: 'reputation',
  judge: (facts) => reputation.judge(facts.client),
});
