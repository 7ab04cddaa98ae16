/**
 * What is remembered of one token (a session or an API key): when it lived, from where, and the order of its
 * pages. The order is a sketch: each run of three path templates is hashed into one of 64 counters, so that
 * two walks by one plan point the same way however long they are and whatever they skip.
 */
import { parseIpv4, prefixKey } from '../core/address.js';
import type { Observation } from '../core/observation.js';
import type { Saved } from './detector.js';
import { hash32 } from '../structures/text-hash.js';
import { addPath, createPathBits, readPathBits, writePathBits, type PathBits } from './path-bits.js';
import type { Route } from './route.js';
import { listOf, maybe, numberOf, textOf, type Row } from './saved.js';

export const GRAMS = 64;
const FROM_MAX = 16;
const REQUEST_IDS = 3;
/** Before, there is nothing to compare: the thousands who look at two pages cost nothing. */
const SKETCHED_FROM = 8;
const COUNTER_MAX = 65_535;

/** Requests of a token from one address. `network`: `AS64500`, or the /16 or /32 where no ASN is known. */
export type From = { key: string; network: string; count: number };

export type Profile = {
  site: string;
  user: string | undefined;
  firstMs: number;
  lastMs: number;
  /** Pages, not assets. */
  count: number;
  /** Of them, those that changed something: logins, orders, forms that were taken. */
  acts: number;
  last: number;
  beforeLast: number;
  grams: Uint16Array | undefined;
  paths: PathBits | undefined;
  requestIds: string[];
  /** The first sixteen addresses. */
  from: From[];
};

export function createProfile({ site, user, timeMs }: Observation): Profile {
  return {
    site,
    user,
    firstMs: timeMs,
    lastMs: timeMs,
    count: 0,
    acts: 0,
    last: 0,
    beforeLast: 0,
    grams: undefined,
    paths: undefined,
    requestIds: [],
    from: [],
  };
}

export function addRequest(profile: Profile, observation: Observation, route: Route): void {
  const { timeMs, path, requestId } = observation;
  if (timeMs > profile.lastMs) profile.lastMs = timeMs;
  else if (timeMs < profile.firstMs) profile.firstMs = timeMs;
  profile.count += 1;
  if (isAct(observation)) profile.acts += 1;
  profile.user ??= observation.user;
  if (profile.requestIds.length < REQUEST_IDS) profile.requestIds.push(requestId);
  addFrom(profile, observation);
  // Two before the first run of three.
  if (profile.count < SKETCHED_FROM - 2) return;
  const now = hash32(route(path));
  if (profile.count >= SKETCHED_FROM) {
    profile.grams ??= new Uint16Array(GRAMS);
    profile.paths ??= createPathBits();
    const gram = hashOf(profile.beforeLast, profile.last, now) & (GRAMS - 1);
    if (profile.grams[gram]! < COUNTER_MAX) profile.grams[gram]! += 1;
    addPath(profile.paths, path);
  }
  profile.beforeLast = profile.last;
  profile.last = now;
}

const isAct = ({ method, status }: Observation): boolean =>
  method !== 'GET' && method !== 'HEAD' && method !== 'OPTIONS' && status >= 200 && status < 400;

function hashOf(first: number, second: number, third: number): number {
  let hash = Math.imul(first ^ 0x9e3779b1, 0x85ebca6b);
  hash = Math.imul((hash ^ (hash >>> 15)) + second, 0xc2b2ae35);
  hash = Math.imul((hash ^ (hash >>> 13)) + third, 0x27d4eb2f);
  return (hash ^ (hash >>> 16)) >>> 0;
}

function addFrom(profile: Profile, { key, asn }: Observation): void {
  for (const from of profile.from) {
    if (from.key !== key) continue;
    from.count += 1;
    return;
  }
  if (profile.from.length < FROM_MAX) profile.from.push({ key, network: networkOf(key, asn), count: 1 });
}

/** Without a database, neighbours stand for the operator: IPv4 by /16, IPv6 by /32. */
function networkOf(key: string, asn: number | undefined): string {
  if (asn !== undefined) return `AS${asn}`;
  const ip = key.split('/', 1)[0] ?? key;
  return parseIpv4(ip) >= 0 ? `${ip.split('.', 2).join('.')}.0.0/16` : prefixKey(ip, 32);
}

export function writeProfile(profile: Profile): Row {
  const { site, user, firstMs, lastMs, count, acts, last, beforeLast, grams, paths } = profile;
  return [
    site,
    user ?? null,
    [firstMs, lastMs, count, last, beforeLast, acts],
    grams === undefined ? null : Array.from(grams),
    paths === undefined ? null : writePathBits(paths),
    profile.requestIds,
    profile.from.map(({ key, network, count: requests }) => [key, network, requests]),
  ];
}

export function readProfile(row: Row): Profile {
  const [site, user, numbers, grams, paths, requestIds, from] = row;
  const [firstMs, lastMs, count, last, beforeLast, acts] = listOf(numbers).map(numberOf);
  return {
    site: textOf(site),
    user: maybe(user, textOf),
    firstMs: numberOf(firstMs),
    lastMs: numberOf(lastMs),
    count: numberOf(count),
    acts: numberOf(acts),
    last: numberOf(last),
    beforeLast: numberOf(beforeLast),
    grams: maybe(grams, readGrams),
    paths: maybe(paths, readPathBits),
    requestIds: listOf(requestIds).map(textOf).slice(0, REQUEST_IDS),
    from: listOf(from).map(readFrom).slice(0, FROM_MAX),
  };
}

function readGrams(saved: Saved): Uint16Array {
  const grams = Uint16Array.from(listOf(saved), numberOf);
  if (grams.length !== GRAMS) throw new TypeError('no saved sketch');
  return grams;
}

function readFrom(saved: Saved): From {
  const [key, network, count] = listOf(saved);
  return { key: textOf(key), network: textOf(network), count: numberOf(count) };
}
