/** Stage 3: do the headers look like the client they claim? */
import { NO_FINDINGS, type Finding } from '../../core/finding.js';
import type { RequestFacts } from '../../core/request.js';
import type { Stage } from '../stage.js';

export const headersStage = (score: (facts: RequestFacts) => readonly Finding[]): Stage => ({
  name: 'headers',
  judge: (facts, body) => (body === undefined ? score(facts) : NO_FINDINGS),
});
