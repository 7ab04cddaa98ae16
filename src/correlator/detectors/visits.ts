/** What `travel` remembers of a session: the addresses it came from one after the other, and its manner. */
import type { Observation } from '../../core/observation.js';
import type { Place } from '../../core/place.js';
import type { Saved } from '../detector.js';
import { hash32 } from '../../structures/text-hash.js';
import { listOf, maybe, numberOf, textOf, type Row } from '../saved.js';

/** Requests that came from one address in a row. */
export type Visit = {
  key: string;
  ip: string;
  asn: number | undefined;
  startMs: number;
  lastMs: number;
  count: number;
  requestId: string;
  /** Not looked up before the address changes. */
  place: Place | undefined;
  looked: boolean;
  /** The move to here was faster than physics. */
  impossible: boolean;
};
/** `software` and `paths`: hashes of the first few; one more than is few means many. */
export type Session = { visits: Visit[]; current: Visit; software: number[]; paths: number[] };

export const VISITS_MAX = 24;
const SOFTWARE_MAX = 2;
/** A check that somebody runs against the site asks for so few URLs. */
const PATHS_FEW = 8;

export const visitOf = ({ key, ip, asn, timeMs, requestId }: Observation): Visit => ({
  key,
  ip,
  asn,
  startMs: timeMs,
  lastMs: timeMs,
  count: 1,
  requestId,
  place: undefined,
  looked: false,
  impossible: false,
});

export function noteManner({ software, paths }: Session, { userAgent, path }: Observation): void {
  if (software.length < SOFTWARE_MAX) addNew(software, hash32(userAgent));
  if (paths.length <= PATHS_FEW) addNew(paths, hash32(path));
}

function addNew(list: number[], value: number): void {
  if (!list.includes(value)) list.push(value);
}

/**
 * A check that somebody runs against the site from several places: one software, a few URLs, the same
 * addresses in a fixed round, evenly. Who uses a stolen session so does no more than a check does.
 */
export function isCheck({ visits, current, software, paths }: Session): boolean {
  if (software.length > 1 || paths.length > PATHS_FEW) return false;
  return isRound([...visits, current]);
}

const PATIENT_MS = 300_000;

/** One software that stays for minutes: a person whose exit changes, as with Tor every ten. */
export function isPatient({ visits, current, software }: Session): boolean {
  const first = visits[0]?.startMs ?? current.startMs;
  return software.length <= 1 && current.startMs - first >= PATIENT_MS * visits.length;
}

const ROUND_MAX = 12;
const ROUND_SHARE = 0.8;
const UNEVEN_MAX = 0.35;

function isRound(visits: readonly Visit[]): boolean {
  const round = new Set(visits.map(({ key }) => key)).size;
  // Before it has come round once it has the benefit of the doubt.
  if (round > ROUND_MAX) return false;
  const again = visits.filter(({ key }, at) => at >= round && key === visits[at - round]!.key).length;
  if (again < ROUND_SHARE * (visits.length - round)) return false;
  const gaps = visits.slice(1).map(({ startMs }, at) => startMs - visits[at]!.startMs);
  const mean = gaps.reduce((sum, ms) => sum + ms, 0) / gaps.length;
  const variance = gaps.reduce((sum, ms) => sum + (ms - mean) ** 2, 0) / gaps.length;
  return Math.sqrt(variance) <= UNEVEN_MAX * mean;
}

function writeVisit(visit: Visit): Saved {
  const { key, ip, asn, startMs, lastMs, count, requestId, place } = visit;
  const where = place === undefined ? null : [place.latitude, place.longitude, place.radiusKm];
  const flags = (visit.looked ? 1 : 0) + (visit.impossible ? 2 : 0);
  return [key === ip ? '' : key, ip, asn ?? null, startMs, lastMs, count, requestId, flags, where];
}

export function readSession(row: Row): Session {
  const [manner, ...rows] = row;
  const [software, paths] = listOf(manner).map((hashes) => listOf(hashes).map(numberOf));
  const visits = rows.map(readVisit);
  const current = visits.pop();
  if (current === undefined || visits.length > VISITS_MAX) throw new TypeError('no saved session');
  return { visits, current, software: software ?? [], paths: paths ?? [] };
}

function readVisit(saved: Saved): Visit {
  const [key, ip, asn, startMs, lastMs, count, requestId, flags, where] = listOf(saved);
  return {
    key: key === '' ? textOf(ip) : textOf(key),
    ip: textOf(ip),
    asn: maybe(asn, numberOf),
    startMs: numberOf(startMs),
    lastMs: numberOf(lastMs),
    count: numberOf(count),
    requestId: textOf(requestId),
    looked: (numberOf(flags) & 1) !== 0,
    impossible: (numberOf(flags) & 2) !== 0,
    place: maybe(where, readPlace),
  };
}

function readPlace(saved: Saved): Place {
  const [latitude, longitude, radiusKm] = listOf(saved).map(numberOf);
  return { latitude: latitude ?? 0, longitude: longitude ?? 0, radiusKm: radiusKm ?? 0 };
}

export const writeSession = ({ visits, current, software, paths }: Session): Saved[] => [
  [software, paths],
  ...[...visits, current].map(writeVisit),
];
