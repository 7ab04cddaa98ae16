/**
 * A session that is in places which nobody can reach in the time between: a cookie that is shared out over
 * proxies. One such move is a VPN switched on, a roaming phone or a gateway far away, and two places taken in
 * turn are a split tunnel, a server that asks in its visitor's name, or a thief; so only three places and
 * more are sure. Blind where all its addresses lie in one region. Suspect is the session, never an address:
 * people share those.
 */
import { z } from 'zod';
import type { Observation } from '../../core/observation.js';
import { surelyApartKm, type Place, type PlaceOf } from '../../core/place.js';
import { duration } from '../../core/schema.js';
import { detectorShape, rounded } from '../common.js';
import type { Detection, Detector, DetectorPart, GoodRequest, Saved } from '../detector.js';
import { createEntries, type Entries } from '../entries.js';
import { isCheck, isPatient, noteManner, readSession, VISITS_MAX, visitOf, writeSession } from './visits.js';
import type { Session, Visit } from './visits.js';

/** Relays of one kind hand a client over from one operator to another: Apple's runs on these three. */
const RELAY_ASNS = [13335, 36183, 54113];

export const travelSection = z
  .strictObject({
    ...detectorShape(0.8),
    apiKeys: z
      .boolean()
      .default(false)
      .describe('Judge API keys too; off because one key may rightly be used from many places.'),
    speed: z
      .number()
      .min(100)
      .max(100_000)
      .default(1_000)
      .describe('Kilometres an hour that nobody exceeds; airliners fly at 900.'),
    apart: z
      .number()
      .min(50)
      .max(10_000)
      .default(1_000)
      .describe('Kilometres between places, beyond their errors, below which a move says nothing.'),
    window: duration('1h', { min: 60_000, max: 86_400_000 }).describe('How long moves are remembered.'),
    moves: z.int().min(2).max(20).default(3).describe('Impossible moves within the window before it speaks.'),
    places: z.int().min(2).max(10).default(3).describe('Far places from which on it can be sure.'),
    networks: z
      .int()
      .min(3)
      .max(20)
      .default(4)
      .describe('Where places are not known or near: so many ASNs taken in turn within ten minutes.'),
    switches: z
      .int()
      .min(4)
      .max(20)
      .default(8)
      .describe('Changes of ASN within ten minutes that go with it.'),
    relayAsns: z
      .array(z.int().min(0).max(4_294_967_295))
      .default(RELAY_ASNS)
      .describe('ASNs that count as one: operators of the same privacy relay.'),
    keep: z.int().min(100).max(1_000_000).default(20_000).describe('Sessions remembered in each partition.'),
  })
  .prefault({});

export type TravelConfig = z.output<typeof travelSection>;

type Part = DetectorPart & Readonly<{ sessions: Entries<Session> }>;

const NETWORK_WINDOW_MS = 600_000;
const SHORT_VISIT = 5;
const REQUEST_IDS = 5;
const DETECTIONS_MAX = 2_000;
/** Without a sign of harm it is only watched. */
const WATCHED = 0.7;

export function createTravel(config: TravelConfig, place: PlaceOf): Detector {
  return {
    name: 'travel',
    open: (saved) => openPart({ config, place }, saved),
    evaluate(parts, nowMs) {
      const found: Detection[] = [];
      for (const part of parts as readonly Part[]) {
        for (const [name, session] of part.sessions.all()) {
          if (session.visits.length < config.moves) continue;
          const detection = judge(config, nowMs, { name, session });
          if (detection !== undefined) found.push(detection);
        }
      }
      return found.sort(bySureness).slice(0, DETECTIONS_MAX);
    },
  };
}

const bySureness = (a: Detection, b: Detection): number =>
  b.confidence - a.confidence || (a.pattern < b.pattern ? -1 : 1);

type Judge = Readonly<{ config: TravelConfig; place: PlaceOf }>;

function openPart({ config, place }: Judge, saved: Saved | undefined): Part {
  const sessions = createEntries<Session>(
    {
      max: config.keep,
      idleMs: Math.max(config.window, NETWORK_WINDOW_MS),
      lastMs: ({ current }) => current.lastMs,
      worth: ({ visits }) => visits.length,
    },
    saved === undefined ? undefined : { from: saved, read: readSession },
  );
  const nameOf = ({ session, apiKey }: Observation): string | undefined =>
    session ?? (config.apiKeys && apiKey !== undefined ? `${KEY_MARK}${apiKey}` : undefined);
  return {
    sessions,
    observe(observation) {
      const name = nameOf(observation);
      if (name === undefined) return;
      const { timeMs } = observation;
      const session = sessions.get(name, timeMs);
      if (session === undefined) {
        const fresh = { visits: [], current: visitOf(observation), software: [], paths: [] };
        sessions.add(name, fresh, timeMs);
        noteManner(fresh, observation);
        return;
      }
      noteManner(session, observation);
      if (session.current.key === observation.key) {
        session.current.count += 1;
        if (timeMs > session.current.lastMs) session.current.lastMs = timeMs;
      } else if (timeMs >= session.current.lastMs) {
        move({ config, place }, session, observation);
      }
      // What began before the move but ended after it came to us late, and was no way back.
    },
    save: () => sessions.save(writeSession),
    size: () => sessions.size(),
    dropped: () => sessions.dropped(),
  };
}

const KEY_MARK = 'key:';

function move({ config, place }: Judge, session: Session, observation: Observation): void {
  const from = session.current;
  const to = visitOf(observation);
  for (const visit of [from, to]) {
    if (!visit.looked) visit.place = place(visit.ip);
    visit.looked = true;
  }
  const km = farKm(config, from, to);
  const hours = Math.max(to.startMs - from.lastMs, 1_000) / 3_600_000;
  to.impossible = km >= config.apart && km / hours > config.speed;
  session.visits.push(from);
  if (session.visits.length > VISITS_MAX) session.visits.shift();
  session.current = to;
}

/** 0 where both are one operator's: a carrier or a relay has gateways in several cities. */
function farKm(config: TravelConfig, from: Visit, to: Visit): number {
  if (from.place === undefined || to.place === undefined) return 0;
  const network = networkOf(config, from);
  if (network !== undefined && network === networkOf(config, to)) return 0;
  return surelyApartKm(from.place, to.place);
}

const networkOf = ({ relayAsns }: TravelConfig, { asn }: Visit): number | undefined =>
  asn !== undefined && relayAsns.includes(asn) ? relayAsns[0] : asn;

type Found = Readonly<{ confidence: number; summary: string; counts: Readonly<Record<string, number>> }>;

function judge(
  config: TravelConfig,
  nowMs: number,
  { name, session }: Readonly<{ name: string; session: Session }>,
): Detection | undefined {
  const all = [...session.visits, session.current];
  const visits = all.filter(({ lastMs }) => lastMs >= nowMs - config.window);
  const recent = all.filter(({ lastMs }) => lastMs >= nowMs - NETWORK_WINDOW_MS);
  const surest = [byPlaces(config, visits), byNetworks(config, recent)]
    .filter((one) => one !== undefined)
    .sort((a, b) => b.confidence - a.confidence)[0];
  if (surest === undefined) return undefined;
  const found = isCheck(session) || isPatient(session) ? watched(surest) : surest;
  const isKey = name.startsWith(KEY_MARK);
  const value = isKey ? name.slice(KEY_MARK.length) : name;
  const moves = visits.filter(({ impossible }) => impossible);
  const [firstSeenMs, lastSeenMs] = [(visits[0] ?? session.current).startMs, session.current.lastMs];
  const evidence = {
    count: visits.reduce((sum, { count }) => sum + count, 0),
    firstSeenMs,
    lastSeenMs,
    requestIds: (moves.length > 0 ? moves : visits).slice(-REQUEST_IDS).map(({ requestId }) => requestId),
  };
  return {
    detector: 'travel',
    pattern: `${isKey ? 'API key' : 'session'} ${value} in far places at once`,
    ...found,
    firstSeenMs,
    lastSeenMs,
    suspects: [{ subject: { kind: isKey ? 'apiKey' : 'session', value }, evidence }],
    explains: (request: GoodRequest) => (isKey ? request.apiKey : request.session) === value,
  };
}

const watched = (found: Found): Found => ({
  ...found,
  confidence: Math.min(WATCHED, found.confidence),
  summary: `${found.summary}; as a check or somebody behind changing exits does it`,
});

function byPlaces(config: TravelConfig, visits: readonly Visit[]): Found | undefined {
  const moves = visits.filter(({ impossible }) => impossible).length;
  if (moves < config.moves) return undefined;
  const places = farPlaces(config, visits);
  const perVisit = visits.reduce((sum, { count }) => sum + count, 0) / visits.length;
  // A person who tries one exit of a VPN after the other loads whole pages at each.
  const confidence =
    places >= config.places
      ? Math.min(0.95, 0.5 + 0.04 * moves + (perVisit <= SHORT_VISIT ? 0.1 : 0))
      : Math.min(0.7, 0.4 + 0.02 * moves);
  const { apart, speed } = config;
  return {
    confidence: rounded(confidence),
    summary:
      `in ${places} places at least ${apart} km apart, with ${moves} moves faster than ${speed} km/h ` +
      `(${config.moves} are suspect; sure from ${config.places} places on), ${perVisit.toFixed(1)} requests each`,
    counts: { moves, places, visits: visits.length },
  };
}

function farPlaces({ apart }: TravelConfig, visits: readonly Visit[]): number {
  const centres: Place[] = [];
  for (const { place } of visits) {
    if (place !== undefined && centres.every((centre) => surelyApartKm(centre, place) >= apart)) {
      centres.push(place);
    }
  }
  return centres.length;
}

/** Many operators in turn, wherever they are. */
function byNetworks(config: TravelConfig, visits: readonly Visit[]): Found | undefined {
  const taken = visits.map((visit) => networkOf(config, visit)).filter((asn) => asn !== undefined);
  const networks = new Set(taken).size;
  const switches = taken.filter((asn, at) => at > 0 && asn !== taken[at - 1]).length;
  if (networks < config.networks || switches < config.switches) return undefined;
  return {
    confidence: rounded(Math.min(0.9, 0.5 + 0.05 * networks)),
    summary:
      `from ${networks} networks in turn, ${switches} changes within ten minutes ` +
      `(${config.networks} and ${config.switches} are suspect)`,
    counts: { networks, switches, visits: visits.length },
  };
}
