/**
 * Stage 1: is this client welcome, banned, or known for something? The allowlist wins over every ban; a ban
 * that is only observed is written down beside what else is known.
 */
import type { Finding } from '../../core/finding.js';
import type { RequestFacts } from '../../core/request.js';
import type { Reputation } from '../../reputation/contract.js';
import type { Stage } from '../stage.js';

export const reputationStage = (
  reputation: Reputation,
  bans: (facts: RequestFacts) => readonly Finding[],
): Stage => ({
  name: 'reputation',
  judge(facts) {
    const known = reputation.judge(facts.client);
    const banned = bans(facts);
    if (banned.length === 0 || known.some(({ kind }) => kind === 'allow')) return known;
    return banned.every(({ observed }) => observed === true) ? [...banned, ...known] : banned;
  },
});
