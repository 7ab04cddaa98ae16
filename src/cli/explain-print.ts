/** A decision event as text for a person: the way through the stages, the evidence, the verdict. Pure. */
import type { DecisionEvent, Step } from '../core/event.js';
import type { Finding } from '../core/finding.js';

/** What `explain` knows beyond the event: a decision that was just made says what would have turned it. */
export type Extras = Readonly<{
  wouldChange?: string;
  nth?: number;
  /** What stage 6 does with the event; read from the event alone where absent. */
  telemetry?: string;
}>;

const TEXT_MAX = 200;

/** Several lines, each ending in a newline. Control characters of the request come out escaped. */
export function explainEvent(event: DecisionEvent, extras: Extras = {}): string {
  const lines = [
    `${visible(event.method)} ${visible(event.path)}${event.query ? `?${visible(event.query)}` : ''}`,
    ...facts(event, extras),
    '',
    `  ${'stage'.padEnd(12)}${'time'.padStart(9)}   score`,
  ];
  for (const step of event.steps) lines.push(...stepLines(step));
  lines.push(`  ${'telemetry'.padEnd(12)}${'-'.padStart(9)}   ${extras.telemetry ?? writtenDown(event)}`);
  lines.push('', verdict(event));
  if (event.reason !== '') lines.push(`  why: ${visible(event.reason)}`);
  if (event.delayedMs !== undefined) lines.push(`  waited: ${event.delayedMs} ms`);
  if (event.ruleIds.length > 0) lines.push(`  rules: ${event.ruleIds.map(visible).join(', ')}`);
  const change = extras.wouldChange ?? wouldHaveChanged(event);
  if (change !== undefined) lines.push(`  what would have changed it: ${visible(change)}`);
  return `${lines.join('\n')}\n`;
}

/** Stage 6 runs after the answer: a decision that is read from a log has been through it. */
function writtenDown({ action }: DecisionEvent): string {
  return action === 'pass'
    ? 'after the answer: logged and counted; not notable'
    : 'after the answer: logged and counted; notable, shown under /decisions';
}

/** The same for a decision that was only tried out: `passed` is `log.passed`. */
export function wouldBeWritten({ action }: DecisionEvent, passed: boolean): string {
  if (action !== 'pass')
    return 'after the answer: would be logged and counted; notable, shown under /decisions';
  return passed
    ? 'after the answer: would be logged and counted; not notable'
    : 'after the answer: would be counted only, since log.passed is false; not notable';
}

function facts(event: DecisionEvent, extras: Extras): string[] {
  const { client } = event;
  const who = [`  client: ${visible(client.ip)}`];
  if (client.key !== client.ip) who.push(`counted as ${visible(client.key)}`);
  if (client.asn !== undefined) who.push(`AS${client.asn}`);
  if (client.userAgent !== undefined) who.push(`"${visible(client.userAgent)}"`);
  const lines = [`  request: ${visible(event.requestId)} at ${event.time}`, who.join(', ')];
  lines.push(`  site: ${visible(event.site)}${event.host === '' ? '' : ` (${visible(event.host)})`}`);
  if (extras.nth !== undefined && extras.nth > 1)
    lines.push(`  judged as number ${extras.nth} of the same kind`);
  return lines;
}

function stepLines(step: Step): string[] {
  const name = `  ${step.stage.padEnd(12)}`;
  if (step.skipped !== undefined) return [`${name}${'-'.padStart(9)}   not run: ${step.skipped}`];
  const score =
    step.before === step.after ? String(step.after) : `${step.before} → ${step.after}${capped(step)}`;
  const lines = [`${name}${duration(step.durationUs).padStart(9)}   ${score}`];
  for (const finding of step.findings) lines.push(...findingLines(finding));
  return lines;
}

function capped(step: Step): string {
  const sum = step.findings.reduce(
    (total, one) => total + (one.observed === true ? 0 : one.points),
    step.before,
  );
  return step.after === 100 && sum > 100 ? ' (capped)' : '';
}

function findingLines(finding: Finding): string[] {
  const points = finding.points > 0 ? ` +${finding.points}` : '';
  const severity = finding.severity === undefined ? '' : `, severity ${finding.severity}`;
  const observed = finding.observed === true ? ' (observe mode: counts for nothing)' : '';
  const lines = [`      ${visible(finding.id)}${points}${severity}: ${visible(finding.message)}${observed}`];
  if (finding.evidence !== undefined) {
    const { target, text, transformations } = finding.evidence;
    const after = transformations.length === 0 ? '' : `, after ${transformations.map(visible).join(' → ')}`;
    lines.push(`        in ${visible(target)}: ${visible(text)}${after}`);
  }
  if (finding.limit !== undefined) {
    const { policy, by, limit, windowMs, remaining, retryAfterMs } = finding.limit;
    const wait = retryAfterMs > 0 ? `, free again in ${seconds(retryAfterMs)}` : '';
    if (finding.delayMs !== undefined) lines.push(`        waits ${finding.delayMs} ms before it goes on`);
    lines.push(
      `        policy ${visible(policy)} by ${visible(by)}: ${limit} in ${seconds(windowMs)}, ${remaining} left${wait}`,
    );
  }
  return lines;
}

function verdict(event: DecisionEvent): string {
  const status = event.status > 0 ? ` with ${event.status}` : '';
  const would = event.wouldBe === undefined ? '' : `; enforcing would have said ${event.wouldBe}`;
  return `verdict: ${event.action}${status}, score ${event.score}, ${duration(event.durationUs.total)} in all${would}`;
}

/**
 * Read from the findings alone, for log lines. One clause; undefined where nothing was held against the
 * request. The decision itself knows better, and its own words are preferred.
 */
export function wouldHaveChanged(event: DecisionEvent): string | undefined {
  const findings = event.steps
    .flatMap((step) => step.findings)
    .filter((finding) => finding.observed !== true);
  if (event.action === 'pass') return undefined;
  const malformed = findings.find((finding) => finding.kind === 'malformed');
  if (malformed !== undefined) return `a request without what ${malformed.id} names`;
  const denied = findings.find((finding) => finding.kind === 'deny');
  if (denied !== undefined) return `an address that ${denied.id} does not name, or an allowlist entry`;
  const matches = findings.filter((finding) => finding.kind === 'match');
  if (matches.length > 0)
    return `none of ${matches.map((match) => match.id).join(', ')} matching, or an exclusion for it`;
  const limit = findings.find((finding) => finding.kind === 'limit');
  if (limit === undefined) return undefined;
  const wait = limit.limit === undefined ? '' : `, ${seconds(limit.limit.retryAfterMs)} later`;
  return `staying within ${limit.limit?.policy ?? limit.id}${wait}`;
}

function duration(us: number): string {
  return us >= 10_000 ? `${(us / 1000).toFixed(1)} ms` : `${us} µs`;
}

function seconds(ms: number): string {
  return `${Number((ms / 1000).toFixed(1))} s`;
}

/** A request's text must not move the reader's cursor or forge lines. */
function visible(text: string): string {
  const short = text.length > TEXT_MAX * 2 ? `${text.slice(0, TEXT_MAX * 2)}…` : text;
  return short.replace(/[\u0000-\u001f\u007f-\u009f\u2028\u2029\u202a-\u202e]/g, (char) => {
    return `\\x${char.charCodeAt(0).toString(16).padStart(2, '0')}`;
  });
}
