/** The order of the pipeline. Decision (5) is the runner's last act, telemetry (6) follows the answer. */
import type { Limiter } from '../../limits/limiter-contract.js';
import type { Reputation } from '../../reputation/contract.js';
import type { RuleEngine } from '../../rules/engine.js';
import type { Finding } from '../../core/finding.js';
import type { RequestFacts } from '../../core/request.js';
import type { Stage } from '../stage.js';
import { headersStage } from './headers.js';
import { limitsStage } from './limits.js';
import { reputationStage } from './reputation.js';
import { rulesStage } from './rules.js';

export type StageEngines = Readonly<{
  reputation: Reputation;
  /** What bans say of the sender; nothing where there are none. */
  bans: (facts: RequestFacts) => readonly Finding[];
  limiter: Limiter;
  scoreHeaders: (facts: RequestFacts) => readonly Finding[];
  rules: RuleEngine;
}>;

export const stagesOf = (engines: StageEngines): readonly Stage[] => [
  reputationStage(engines.reputation, engines.bans),
  limitsStage(engines.limiter),
  headersStage(engines.scoreHeaders),
  rulesStage(engines.rules),
];
