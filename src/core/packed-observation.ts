/**
 * Observations on the line between processes and threads: one line of text each, fields apart by tabs, since
 * a text is copied whole where an object is taken apart and put together at every step. The reading side
 * trusts nothing: what is no observation is refused, texts are cut and cleaned.
 */
import { REFUSALS, type LimitUse, type Observation } from './observation.js';
import { cleanText } from './text.js';

const FIELDS = 20;
/** Characters of a name, an identity, an address. */
export const NAME_MAX = 256;
const SEPARATORS = /[\t\n]/;

/** Without a line end. */
export function packObservation(of: Observation): string {
  const { near } = of;
  const head = `${of.timeMs}\t${flat(of.requestId)}\t${flat(of.node)}\t${flat(of.site)}\t${of.ip}\t${of.key}`;
  const who = `${of.asn ?? ''}\t${flat(of.userAgent)}\t${of.session ?? ''}\t${of.apiKey ?? ''}\t${of.user ?? ''}`;
  const what = `${of.headerHash ?? ''}\t${of.ja4 ?? ''}\t${flat(of.method)}\t${flat(of.path)}`;
  const end = `${of.status}\t${of.upstreamStatus}\t${REFUSALS.indexOf(of.refusal)}\t${of.allowlisted ? 1 : 0}`;
  return `${head}\t${who}\t${what}\t${end}\t${near === undefined ? '' : JSON.stringify(near)}`;
}

const flat = (text: string): string => (SEPARATORS.test(text) ? text.replace(/[\t\n]/g, ' ') : text);

/** Undefined for anything that `packObservation` did not make. Never throws. */
export function unpackObservation(line: string): Observation | undefined {
  const fields = line.split('\t', FIELDS + 1);
  if (fields.length !== FIELDS) return undefined;
  const timeMs = wholeOf(fields[0]!);
  const status = wholeOf(fields[15]!);
  const upstreamStatus = wholeOf(fields[16]!);
  const refusal = REFUSALS[wholeOf(fields[17]!)];
  const asn = fields[6] === '' ? undefined : wholeOf(fields[6]!);
  const near = fields[19] === '' ? undefined : unpackNear(fields[19]!);
  if (Number.isNaN(timeMs + status + upstreamStatus + (asn ?? 0)) || refusal === undefined) return undefined;
  if (fields[19] !== '' && near === undefined) return undefined;
  const text = (at: number): string => cleanText(fields[at]!, NAME_MAX);
  const some = (at: number): string | undefined => (fields[at] === '' ? undefined : text(at));
  return {
    timeMs,
    requestId: text(1),
    node: text(2),
    site: text(3),
    ip: text(4),
    key: text(5),
    asn,
    userAgent: text(7),
    session: some(8),
    apiKey: some(9),
    user: some(10),
    headerHash: some(11),
    ja4: some(12),
    method: text(13),
    path: text(14),
    status,
    upstreamStatus,
    refusal,
    allowlisted: fields[18] === '1',
    near,
  };
}

/** NaN for what is no whole number from 0 on. */
function wholeOf(text: string): number {
  if (text.length === 0 || text.length > 15) return NaN;
  let value = 0;
  for (let at = 0; at < text.length; at++) {
    const digit = text.charCodeAt(at) - 48;
    if (digit < 0 || digit > 9) return NaN;
    value = value * 10 + digit;
  }
  return value;
}

function unpackNear(text: string): LimitUse | undefined {
  let near: unknown;
  try {
    near = JSON.parse(text);
  } catch {
    return undefined;
  }
  if (typeof near !== 'object' || near === null) return undefined;
  const { policy, by, used, limit, windowMs } = near as Record<string, unknown>;
  if (typeof policy !== 'string' || typeof by !== 'string') return undefined;
  if (!isAmount(used) || !isAmount(limit) || !isAmount(windowMs)) return undefined;
  return { policy: cleanText(policy, NAME_MAX), by: cleanText(by, NAME_MAX), used, limit, windowMs };
}

const isAmount = (value: unknown): value is number =>
  typeof value === 'number' && value >= 0 && value <= Number.MAX_SAFE_INTEGER;
