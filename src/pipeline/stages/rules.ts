/** Stage 4: rules over the head first, over the body once it was inspected. */
import type { RuleEngine } from '../../rules/engine.js';
import type { Stage } from '../stage.js';

export const rulesStage = (rules: RuleEngine): Stage => ({
  name: 'rules',
  judge: (facts, body) => (body === undefined ? rules.inspectHead(facts) : body.findings),
});
