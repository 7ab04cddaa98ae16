/**
 * A message of the topic → what the correlator reads of it, or why there is nothing to read. Whoever can
 * write to the topic can write anything: this never throws, refuses what is long before reading it, and
 * checks and cleans what the observation takes and nothing else.
 */
import { NAME_MAX } from '../core/packed-observation.js';
import type { DecisionEvent } from '../core/event.js';
import { isKernelEvent } from '../core/kernel-event.js';
import { observationOf, type LimitUse, type Observation } from '../core/observation.js';
import { cleanText } from '../core/text.js';
import type { Reject } from './bus-contract.js';

export const MESSAGE_BYTES_MAX = 1024 ** 2;
/** Clocks of gates differ by less; what they differ by must stay below the lateness that is forgiven. */
const FUTURE_MS = 20_000;
const STEPS_MAX = 64;
const FINDINGS_MAX = 10_000;

type Unknown = Readonly<Record<string, unknown>>;

/**
 * `value` as it lies on the topic. `nowMs`: the wall clock, or when the broker took the message where it says
 * so; an event from after that is `future`, so that one gate's fast clock makes no others late.
 */
export function decodeMessage(value: Buffer | null, nowMs: number): Observation | Reject {
  if (value === null) return 'not-json';
  return value.length > MESSAGE_BYTES_MAX ? 'too-large' : decodeText(value.toString('utf8'), nowMs);
}

export function decodeText(text: string, nowMs: number): Observation | Reject {
  if (text.length > MESSAGE_BYTES_MAX) return 'too-large';
  let read: unknown;
  try {
    read = JSON.parse(text);
  } catch {
    return 'not-json';
  }
  if (!isGroup(read)) return 'shape';
  if (isKernelEvent(read)) return 'other';
  if (read['v'] !== 1) return 'version';
  if (!isEvent(read)) return 'shape';
  const observation = observationOf(read as unknown as DecisionEvent);
  if (!(observation.timeMs >= 0)) return 'shape';
  return observation.timeMs > nowMs + FUTURE_MS ? 'future' : cleaned(observation);
}

const isGroup = (value: unknown): value is Unknown =>
  typeof value === 'object' && value !== null && !Array.isArray(value);
const isText = (value: unknown): boolean => typeof value === 'string';
const isOptionalText = (value: unknown): boolean => value === undefined || typeof value === 'string';
const isWhole = (value: unknown): boolean => Number.isSafeInteger(value) && (value as number) >= 0;
const isAmount = (value: unknown): boolean =>
  typeof value === 'number' && value >= 0 && value <= Number.MAX_SAFE_INTEGER;

/** Everything that `observationOf` touches has its type. */
function isEvent(event: Unknown): boolean {
  const { client, upstream, near, steps } = event;
  const texts =
    isText(event['time']) &&
    isText(event['requestId']) &&
    isText(event['node']) &&
    isText(event['site']) &&
    isText(event['method']) &&
    isText(event['path']) &&
    isText(event['action']) &&
    isOptionalText(event['wouldBe']);
  if (!texts || !isWhole(event['status']) || !Array.isArray(event['ruleIds'])) return false;
  if (!isGroup(client) || !isClient(client)) return false;
  if (upstream !== undefined && !(isGroup(upstream) && isWhole(upstream['status']))) return false;
  if (near !== undefined && !(isGroup(near) && isNear(near))) return false;
  return Array.isArray(steps) && steps.length <= STEPS_MAX && steps.every(isStep);
}

function isClient(client: Unknown): boolean {
  const { ip, key, asn } = client;
  return (
    isText(ip) &&
    isText(key) &&
    ip !== '' &&
    key !== '' &&
    (asn === undefined || isWhole(asn)) &&
    isOptionalText(client['userAgent']) &&
    isOptionalText(client['session']) &&
    isOptionalText(client['apiKey']) &&
    isOptionalText(client['user']) &&
    isOptionalText(client['headerHash']) &&
    isOptionalText(client['ja4'])
  );
}

function isNear(near: Unknown): boolean {
  const amounts = isAmount(near['used']) && isAmount(near['limit']) && isAmount(near['windowMs']);
  return amounts && isText(near['policy']) && isText(near['by']);
}

function isStep(step: unknown): boolean {
  if (!isGroup(step)) return false;
  const { findings } = step;
  return Array.isArray(findings) && findings.length <= FINDINGS_MAX && findings.every(isGroup);
}

/** Nothing in it can end a line, colour a terminal or grow without end. */
function cleaned(of: Observation): Observation {
  return {
    timeMs: of.timeMs,
    requestId: cleanText(of.requestId, NAME_MAX),
    node: cleanText(of.node, NAME_MAX),
    site: cleanText(of.site, NAME_MAX),
    ip: cleanText(of.ip, NAME_MAX),
    key: cleanText(of.key, NAME_MAX),
    asn: of.asn,
    userAgent: cleanText(of.userAgent, NAME_MAX),
    session: some(of.session),
    apiKey: some(of.apiKey),
    user: some(of.user),
    headerHash: some(of.headerHash),
    ja4: some(of.ja4),
    method: cleanText(of.method, NAME_MAX),
    path: cleanText(of.path, NAME_MAX),
    status: of.status,
    upstreamStatus: of.upstreamStatus,
    refusal: of.refusal,
    allowlisted: of.allowlisted,
    near: of.near === undefined ? undefined : cleanedUse(of.near),
  };
}

const some = (text: string | undefined): string | undefined =>
  text === undefined ? undefined : cleanText(text, NAME_MAX);

function cleanedUse({ policy, by, used, limit, windowMs }: LimitUse): LimitUse {
  return { policy: cleanText(policy, NAME_MAX), by: cleanText(by, NAME_MAX), used, limit, windowMs };
}
