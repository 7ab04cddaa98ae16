/** The one place where secrets are masked and long request text is cut. Rule ids and decisions are never touched. */
import { cut } from '../core/text.js';
import type { DecisionEvent, Step } from '../core/event.js';
import type { Finding } from '../core/finding.js';

const SECRET_NAME =
  'pass(?:word|wd|phrase)?|pwd|secret|token|api[-_]?key|apikey|access[-_]?key|auth(?:orization)?|session(?:id)?|sid|jwt|code|signature|sig';
const SECRET_PARAM = new RegExp(`((?:^|[&;?])[^=&;]{0,40}?(?:${SECRET_NAME})[^=&;]{0,20}=)[^&;]*`, 'gi');
const SECRET_TARGET = new RegExp(`^(?:cookie:|header:(?:cookie|authorization|proxy-authorization|x-api-key)|\\w+:.*(?:${SECRET_NAME}))`, 'i');
const MASK = '[redacted]';
const EVIDENCE_MAX = 200;

export function redactQuery(query: string): string {
  return query.replace(SECRET_PARAM, `$1${MASK}`);
}

/** Evidence keeps where and how; the text of a secret field goes. */
function redactFinding(finding: Finding): Finding {
  const { evidence } = finding;
  if (evidence === undefined) return finding;
  const text = SECRET_TARGET.test(evidence.target) ? MASK : cut(evidence.text, EVIDENCE_MAX);
  return { ...finding, evidence: { ...evidence, target: cut(evidence.target, EVIDENCE_MAX), text } };
}

/** A copy that may be written down: cut to `fieldMax` characters a field, secrets masked. */
export function redactEvent(event: DecisionEvent, fieldMax: number): DecisionEvent {
  const { client } = event;
  const out: DecisionEvent = {
    ...event,
    host: cut(event.host, 255),
    path: cut(event.path, fieldMax),
    client: client.userAgent === undefined ? client : { ...client, userAgent: cut(client.userAgent, fieldMax) },
    steps: event.steps.some((step) => step.findings.length > 0) ? event.steps.map(redactStep) : event.steps,
  };
  if (event.query !== undefined) out.query = cut(redactQuery(event.query), fieldMax);
  return out;
}

function redactStep(step: Step): Step {
  return step.findings.length === 0 ? step : { ...step, findings: step.findings.map(redactFinding) };
}
