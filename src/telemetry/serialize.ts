/**
 * One event, one line of JSON. The common event (passed, nothing found) is put together by hand: about a
 * third of JSON.stringify's cost. Line separators U+2028/2029 and control characters are escaped; lone
 * surrogates cannot occur in request text (it is Latin-1) and JSON.stringify escapes them elsewhere.
 */
import type { DecisionEvent, Step } from '../core/event.js';

const PLAIN = /^[\x20\x21\x23-\x5b\x5d-\x7e]*$/;
const LINE_SEPARATORS = /[\u2028\u2029\x7f-\x9f]/g;

const text = (value: string): string => (PLAIN.test(value) ? `"${value}"` : json(value));

function json(value: unknown): string {
  return JSON.stringify(value).replace(
    LINE_SEPARATORS,
    (char) => `\\u${char.charCodeAt(0).toString(16).padStart(4, '0')}`,
  );
}

/** Always valid JSON without a line end. */
export function serializeEvent(event: DecisionEvent): string {
  return isPlain(event) ? serializeQuiet(event) : json(event);
}

const isPlain = (event: DecisionEvent): boolean =>
  event.action === 'pass' &&
  event.error === undefined &&
  event.wouldBe === undefined &&
  isQuietThroughout(event.steps);

function isQuietThroughout(steps: readonly Step[]): boolean {
  for (const step of steps) if (step.findings.length > 0 || step.skipped !== undefined) return false;
  return true;
}

function serializeQuiet(event: DecisionEvent): string {
  const { client, durationUs } = event;
  let out = `{"v":1,"time":"${event.time}","requestId":${text(event.requestId)},"node":${text(event.node)}`;
  out += `,"worker":${event.worker},"site":${text(event.site)},"host":${text(event.host)}`;
  out += `,"client":{"ip":"${client.ip}","key":"${client.key}"`;
  if (client.asn !== undefined) out += `,"asn":${client.asn}`;
  if (client.userAgent !== undefined) out += `,"userAgent":${text(client.userAgent)}`;
  if (client.session !== undefined) out += `,"session":${text(client.session)}`;
  if (client.apiKey !== undefined) out += `,"apiKey":${text(client.apiKey)}`;
  if (client.user !== undefined) out += `,"user":${text(client.user)}`;
  if (client.headerHash !== undefined) out += `,"headerHash":${text(client.headerHash)}`;
  if (client.ja4 !== undefined) out += `,"ja4":${text(client.ja4)}`;
  out += `},"method":${text(event.method)},"path":${text(event.path)}`;
  if (event.query !== undefined) out += `,"query":${text(event.query)}`;
  out += `,"status":${event.status},"action":"pass","reason":${text(event.reason)}`;
  out += `,"ruleIds":${event.ruleIds.length === 0 ? '[]' : json(event.ruleIds)},"score":${event.score},"steps":[`;
  for (let index = 0; index < event.steps.length; index++) {
    const step = event.steps[index]!;
    out += (index === 0 ? '' : ',') + stepHead(step) + step.durationUs + ',"findings":[]}';
  }
  out += `],"durationUs":{"total":${durationUs.total},"reputation":${durationUs.reputation},"limits":${durationUs.limits}`;
  out += `,"headers":${durationUs.headers},"rules":${durationUs.rules},"decision":${durationUs.decision}}`;
  if (event.upstream !== undefined) out += `,"upstream":${upstreamOf(event.upstream)}`;
  out += `,"bytesIn":${event.bytesIn},"bytesOut":${event.bytesOut}`;
  if (event.clientAborted === true) out += ',"clientAborted":true';
  if (event.delayedMs !== undefined) out += `,"delayedMs":${event.delayedMs}`;
  if (event.near !== undefined) out += `,"near":${json(event.near)}`;
  if (event.bodyInspection !== undefined) out += `,"bodyInspection":${text(event.bodyInspection)}`;
  return `${out}}`;
}

const zeroHeads = new Map<Step['stage'], string>();

/** Where nothing was found before either, the same for all events. */
function stepHead({ stage, before, after }: Step): string {
  if (before !== 0 || after !== 0) return `{"stage":"${stage}","before":${before},"after":${after},"durationUs":`;
  let head = zeroHeads.get(stage);
  if (head === undefined) {
    head = `{"stage":"${stage}","before":0,"after":0,"durationUs":`;
    zeroHeads.set(stage, head);
  }
  return head;
}

function upstreamOf(upstream: NonNullable<DecisionEvent['upstream']>): string {
  const { address, status, durationUs, attempts, error } = upstream;
  const end = error === undefined ? '}' : `,"error":${text(error)}}`;
  return `{"address":${text(address)},"status":${status},"durationUs":${durationUs},"attempts":${attempts}${end}`;
}
