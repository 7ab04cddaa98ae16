/**
 * The one place where secrets are masked and long request text is cut. Rule ids and decisions are never
 * touched. Names decide what a secret is; a secret in a field with an innocent name is not recognised.
 */
import { cut } from '../core/text.js';
import type { DecisionEvent, Step } from '../core/event.js';
import type { Evidence, Finding } from '../core/finding.js';

/** Long words anywhere in a name, short ones only as a word of their own (`sid`, not `inside`). */
const SECRET_NAME =
  /password|passwd|passphrase|secret|token|credential|(?:api|access|private|auth)[-_.]?key|session[-_.]?id|authorization|(?:^|[^a-z])(?:pass|pwd|pin|otp|sid|jwt|auth|sig|signature|code|session)(?:[^a-z]|$)/i;
const SECRET_HEADER = /^header:(?:cookie|set-cookie|authorization|proxy-authorization)$/;
/** `"password":"x`, `token=x` inside evidence that was cut out of a body, a referer or a nested value. */
const SECRET_IN_TEXT =
  /((?:password|passwd|passphrase|secret|token|api[-_]?key|authorization)["']?\s{0,4}[:=]\s{0,4}["']?(?:(?:bearer|basic)\s)?)[^"'&;,\s<>}]+/gi;
const MASK = '[redacted]';
const NAME_MAX = 128;
const EVIDENCE_MAX = 200;
const MESSAGE_MAX = 300;
const METHOD_MAX = 32;
const HOST_MAX = 255;
/** Findings of one stage that keep their evidence; the rest keep id and points. */
const WITH_EVIDENCE_MAX = 40;

/** Masks the value of every parameter whose name, decoded, is that of a secret. */
export function redactQuery(query: string): string {
  // The names' pattern finds in the whole what it would find in a part, and now and then more.
  if (!query.includes('%') && !SECRET_NAME.test(query)) return query;
  let out = '';
  for (let from = 0; from <= query.length;) {
    let to = from;
    while (to < query.length && query[to] !== '&' && query[to] !== ';') to++;
    const equals = query.indexOf('=', from);
    const secret = equals >= 0 && equals < to && isSecretName(query.slice(from, equals));
    out += secret ? query.slice(from, equals + 1) + MASK : query.slice(from, to);
    if (to < query.length) out += query[to];
    from = to + 1;
  }
  return out;
}

function isSecretName(raw: string): boolean {
  const name = raw.length > NAME_MAX ? raw.slice(0, NAME_MAX) + raw.slice(-NAME_MAX) : raw;
  return SECRET_NAME.test(name.includes('%') ? decoded(name) : name);
}

const decoded = (text: string): string =>
  text.replace(/%([0-7][0-9a-f])/gi, (_, hex: string) => String.fromCharCode(parseInt(hex, 16)));

/**
 * What may be written down: cut to `fieldMax` characters a field, secrets masked. The event itself where
 * there is nothing to cut or mask, else a copy.
 */
export function redactEvent(event: DecisionEvent, fieldMax: number): DecisionEvent {
  // Cut first: a mask reaches to the end of what is left, and a long query costs no more than a short one.
  const query = event.query === undefined ? undefined : redactQuery(cut(event.query, fieldMax));
  const found = event.steps.some((step) => step.findings.length > 0);
  if (!found && query === event.query && event.error === undefined && isShort(event, fieldMax)) return event;
  const { client } = event;
  const long = client.userAgent !== undefined && client.userAgent.length > fieldMax;
  const out: DecisionEvent = {
    ...event,
    host: cut(event.host, HOST_MAX),
    method: cut(event.method, METHOD_MAX),
    path: cut(event.path, fieldMax),
    reason: cut(event.reason, MESSAGE_MAX),
    client: long ? { ...client, userAgent: cut(client.userAgent ?? '', fieldMax) } : client,
    steps: found ? event.steps.map(redactStep) : event.steps,
  };
  if (query !== undefined) out.query = query;
  if (event.error !== undefined) out.error = cut(event.error, MESSAGE_MAX);
  return out;
}

function isShort({ host, method, path, reason, client }: DecisionEvent, fieldMax: number): boolean {
  if (host.length > HOST_MAX || method.length > METHOD_MAX || reason.length > MESSAGE_MAX) return false;
  return path.length <= fieldMax && (client.userAgent?.length ?? 0) <= fieldMax;
}

function redactStep(step: Step): Step {
  return step.findings.length === 0 ? step : { ...step, findings: step.findings.map(redactFinding) };
}

/** Evidence keeps where and how; the text of a secret field goes. */
function redactFinding(finding: Finding, index: number): Finding {
  const message = cut(finding.message, MESSAGE_MAX);
  const { evidence, ...rest } = finding;
  if (evidence === undefined || index >= WITH_EVIDENCE_MAX) return { ...rest, message };
  return { ...rest, message, evidence: redactEvidence(evidence) };
}

function redactEvidence(evidence: Evidence): Evidence {
  const target = cut(evidence.target, EVIDENCE_MAX);
  if (isSecretTarget(evidence.target)) return { ...evidence, target, text: MASK };
  return { ...evidence, target, text: cut(evidence.text, EVIDENCE_MAX).replace(SECRET_IN_TEXT, `$1${MASK}`) };
}

function isSecretTarget(target: string): boolean {
  const colon = target.indexOf(':');
  if (colon < 0) return false;
  const lower = target.toLowerCase();
  return lower.startsWith('cookie:') || SECRET_HEADER.test(lower) || isSecretName(target.slice(colon + 1));
}
