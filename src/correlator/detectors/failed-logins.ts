/**
 * Failed logins over one endpoint from many addresses, each below its own limit: credential stuffing (OWASP
 * OAT-008) and password spraying. What tells it from people: many addresses that fail again and again and
 * (nearly) never get in. People who mistype get in afterwards; how many never do follows from how many did.
 */
import type { Detection, Detector, DetectorPart, GoodRequest } from '../detector.js';
import { type Endpoint, gather, type LoginPart, newEndpoint, take } from './login-attempts.js';
import type { FailedLoginsConfig } from './login-config.js';
import { type Crowd, type Failing, findCrowd } from './login-crowd.js';
import { outages } from './login-outage.js';
import { BUCKETS, openPart } from './login-part.js';
import { knownPeople } from './login-past.js';
import { createLogins, type Logins } from './login-paths.js';
import { type Sorted, sortOut } from './login-people.js';
import { byCount, spanOf, suspectOf } from './sighting.js';
import { bitCount, userCount } from './user-bits.js';

const RECENT = 2;

/** Opens parts that `evaluate` of the same detector understands; throws a ZodError on other text. */
export function createFailedLogins(config: FailedLoginsConfig): Detector {
  const bucketMs = Math.ceil(config.window / BUCKETS);
  const logins = createLogins(config);
  const parts = new WeakMap<DetectorPart, LoginPart>();
  return {
    name: 'failedLogins',
    open(saved) {
      const part = openPart(config, { bucketMs, logins, saved });
      parts.set(part, part);
      return part;
    },
    evaluate(given, nowMs) {
      const mine = given.flatMap((part) => parts.get(part) ?? []);
      const found = new Map<string, Detection>();
      const keep = (detection: Detection | undefined): void => {
        if (detection === undefined) return;
        const known = found.get(detection.pattern)?.confidence ?? 0;
        if (detection.confidence >= known) found.set(detection.pattern, detection);
      };
      const people = knownPeople(mine.map(({ past }) => past));
      const isOut = outages(mine, nowMs, bucketMs);
      const recent = gather(mine, nowMs - RECENT * bucketMs);
      const out = new Set([...recent].filter(([name, seen]) => isOut(name, seen)).map(([name]) => name));
      // The long look last: it holds more evidence of the same attack.
      for (const buckets of [RECENT, BUCKETS]) {
        const looks = buckets === RECENT ? recent : gather(mine, nowMs - buckets * bucketMs);
        const minutes = Math.round((buckets * bucketMs) / 60_000);
        for (const [name, endpoint] of [...looks, ...bySite(looks)]) {
          const site = name.slice(0, name.indexOf(' '));
          const isOutage = out.has(name);
          const sorted = sortOut(config, { site, endpoint, isOutage, people });
          keep(judge(config, { name, endpoint, sorted, minutes, explains: isAt(name, logins) }));
        }
      }
      return [...found.values()].filter(isNews(found));
    },
  };
}

const EVERYWHERE = 'all logins together';

/** All logins of each site that has several, so that nobody hides by spreading over their spellings. */
function bySite(looks: ReadonlyMap<string, Endpoint>): Map<string, Endpoint> {
  const sites = new Map<string, Endpoint[]>();
  for (const [name, endpoint] of looks) {
    const site = `${name.slice(0, name.indexOf(' '))} ${EVERYWHERE}`;
    sites.set(site, [...(sites.get(site) ?? []), endpoint]);
  }
  const all = new Map<string, Endpoint>();
  for (const [site, endpoints] of sites) {
    if (endpoints.length < 2) continue;
    const sum = newEndpoint();
    for (const endpoint of endpoints) take(sum, endpoint);
    all.set(site, sum);
  }
  return all;
}

/** What is found over all logins is told only where it is more than was found on each. */
function isNews(found: ReadonlyMap<string, Detection>): (detection: Detection) => boolean {
  const told = new Set<string>();
  for (const { pattern, suspects } of found.values())
    if (!pattern.endsWith(EVERYWHERE)) for (const { subject } of suspects) told.add(subject.value);
  return ({ pattern, suspects }) =>
    !pattern.endsWith(EVERYWHERE) || suspects.some(({ subject }) => !told.has(subject.value));
}

type Look = Readonly<{
  name: string;
  endpoint: Endpoint;
  sorted: Sorted;
  minutes: number;
  explains: Detection['explains'];
}>;

function judge(config: FailedLoginsConfig, look: Look): Detection | undefined {
  const { name, endpoint, minutes, explains } = look;
  const { failing, accepted } = look.sorted;
  const crowd = findCrowd(config, failing, accepted);
  if (crowd === undefined) return undefined;
  const { members, level, needed } = crowd;
  const suspects = members
    .map(({ key, failed }) => suspectOf({ kind: 'network', value: key }, failed))
    .sort(byCount);
  const failures = suspects.reduce((sum, { evidence }) => sum + evidence.count, 0);
  const usersTried = usersOf(members, Math.min(endpoint.users.count(), failures));
  const { goods } = endpoint;
  return {
    detector: 'failedLogins',
    pattern: `failed logins on ${name}`,
    confidence: confidenceOf(crowd, { failures, goods, usersTried }),
    summary:
      `${suspects.length} addresses failed ${failures} logins on ${name}, each at least ` +
      `${level} and (nearly) none with success, within ${minutes} minutes; from ${Math.ceil(needed)} ` +
      `addresses on it is an attack while ${accepted} others got in` +
      (usersTried > 0 ? `; about ${usersTried} user names were tried.` : '.'),
    counts: { addresses: suspects.length, failures, accepted, goodLogins: goods, usersTried },
    ...spanOf(suspects),
    suspects,
    explains,
  };
}

/** About how many users the members tried; `max` where many tried one of them, or each many. */
function usersOf(members: readonly Failing[], max: number): number {
  const union = members.reduce((bits, { users }) => bits | users, 0) >>> 0;
  const distinct = bitCount(union);
  if (distinct <= 2) return distinct;
  return Math.min(max, Math.round(members.reduce((sum, { users }) => sum + userCount(users), 0)));
}

type Counts = Readonly<{ failures: number; goods: number; usersTried: number }>;

/**
 * Sure at the threshold where each fails often; surer the more there are, and with users no person has: one
 * of all, or each time another. In hundredths, as it is shown.
 */
function confidenceOf({ members, needed, few }: Crowd, { failures, goods, usersTried }: Counts): number {
  const crowded = 0.1 * Math.min(1, Math.log2(members.length / needed) / 2);
  const oddUsers = usersTried > 0 && (usersTried <= 2 || usersTried >= 0.7 * failures) ? 0.05 : 0;
  const sum = (few ? 0.7 : 0.8) + Math.max(0, crowded) + oddUsers + (failures > goods ? 0.04 : 0);
  return Math.round(sum * 100) / 100;
}

/** Loading the form or trying it says nothing for who does it. */
function isAt(name: string, logins: Logins): (request: GoodRequest) => boolean {
  return (request) => {
    const login = logins({ method: 'POST', path: request.path }) ?? logins(request);
    if (login === undefined) return false;
    if (name.endsWith(EVERYWHERE)) return name === `${request.site} ${EVERYWHERE}`;
    return name.startsWith(`${request.site} `) && name.endsWith(` ${login.template}`);
  };
}
