/**
 * A decision event cut to what the correlator needs, where the whole is too long for the bus: texts are cut,
 * findings lose what they say and keep what they mean.
 */
import type { DecisionEvent, Step } from '../core/event.js';
import type { Finding } from '../core/finding.js';
import { cut } from '../core/text.js';

const TEXT_MAX = 256;
const RULES_MAX = 32;
const FINDINGS_MAX = 16;
/** They tell a ban and the allowlist from anything else. */
const TELLING = new Set<Finding['kind']>(['allow', 'deny', 'malformed']);

export function essentialsOf(event: DecisionEvent): DecisionEvent {
  const { client } = event;
  const out: DecisionEvent = {
    ...event,
    host: cut(event.host, TEXT_MAX),
    path: cut(event.path, TEXT_MAX),
    method: cut(event.method, 32),
    reason: cut(event.reason, TEXT_MAX),
    ruleIds: event.ruleIds.slice(0, RULES_MAX),
    client:
      client.userAgent === undefined ? client : { ...client, userAgent: cut(client.userAgent, TEXT_MAX) },
    steps: event.steps.map(bareStep),
  };
  delete out.query;
  if (event.error !== undefined) out.error = cut(event.error, TEXT_MAX);
  return out;
}

function bareStep(step: Step): Step {
  const telling = step.findings.filter(({ kind }) => TELLING.has(kind));
  const others = step.findings.filter(({ kind }) => !TELLING.has(kind));
  const findings = [...telling, ...others].slice(0, FINDINGS_MAX);
  return {
    ...step,
    findings: findings.map(({ id, kind, points }) => ({ id: cut(id, 64), kind, points, message: '' })),
  };
}
