/**
 * Whom a failed login says nothing about: who gets in, who got in before as the same user, and people who
 * try their one name again with the software that people use here, as in an outage of the login or on the
 * day when passwords expire. Where it stops being right: a bot with a browser's header fields that tries at
 * most two names from each address, among many kinds of browsers, is taken for such people.
 */
import type { Endpoint } from './login-attempts.js';
import { softwareIn } from './login-attempts.js';
import type { FailedLoginsConfig } from './login-config.js';
import type { Failing } from './login-crowd.js';
import type { KnownPeople } from './login-past.js';
import { areAmong, bitCount, userCount, withUsers } from './user-bits.js';

export type Ask = Readonly<{
  site: string;
  endpoint: Endpoint;
  /** People got in until now, and nobody does. */
  isOutage: boolean;
  people: KnownPeople;
}>;

/** `accepted`: addresses that got in. */
export type Sorted = Readonly<{ failing: readonly Failing[]; accepted: number }>;

type Limits = Pick<FailedLoginsConfig, 'failures' | 'addresses' | 'goodShare'>;

/** Of the users tried, the part that got in from where several share an address. */
const GOOD_USERS_MIN = 3;
const GOOD_USERS_SHARE = 0.3;
/** A person has one or two names, and does not try for ever. */
const NAMES_MAX = 2;
const TRIES_MAX = 15;
/** Software of fewer than all: people come with several. */
const ONE_SOFTWARE = 0.9;
/** A device with an old password tries again at such a pace. */
const SLOW_MS = 120_000;

export function sortOut(limits: Limits, ask: Ask): Sorted {
  const { site, endpoint, isOutage, people } = ask;
  const failing: Failing[] = [];
  const persons: Failing[] = [];
  let accepted = 0;
  for (const [key, attempts] of endpoint.addresses) {
    const { good, failed, trait, failedUsers } = attempts;
    if (good > 0) accepted++;
    if (failed === undefined) continue;
    const goodUsers = withUsers(attempts.goodUsers, people.usersOf(site, key));
    const known = { key, failed, trait, users: failedUsers };
    if (failedUsers === 0 ? good > failed.count * limits.goodShare : getsIn(failedUsers, goodUsers)) continue;
    // Where answers to a success name nobody.
    if (goodUsers === 0 && good >= GOOD_USERS_SHARE * failed.count) continue;
    if (isOutage && bitCount(goodUsers) >= NAMES_MAX) continue;
    const isPerson = bitCount(failedUsers) <= NAMES_MAX && failed.count <= TRIES_MAX;
    (isPerson && people.isPeoples(site, softwareIn(trait)) ? persons : failing).push(known);
  }
  const often = persons.filter(({ failed }) => failed.count >= limits.failures);
  const isPeople = isOutage || isDiverse(limits, often.length >= limits.addresses ? often : persons);
  if (!isPeople) failing.push(...persons.filter((person) => !isSlow(person)));
  return { failing, accepted };
}

function getsIn(failedUsers: number, goodUsers: number): boolean {
  if (areAmong(failedUsers, goodUsers)) return true;
  const good = userCount(goodUsers);
  return good >= GOOD_USERS_MIN - 0.5 && good >= GOOD_USERS_SHARE * userCount(failedUsers);
}

function isDiverse({ addresses }: Limits, persons: readonly Failing[]): boolean {
  if (persons.length < addresses) return true;
  const counts = new Map<number, number>();
  for (const { trait } of persons)
    counts.set(softwareIn(trait), (counts.get(softwareIn(trait)) ?? 0) + 1);
  return Math.max(...counts.values()) < ONE_SOFTWARE * persons.length;
}

const isSlow = ({ failed: { count, firstMs, lastMs } }: Failing): boolean =>
  count > 1 && (lastMs - firstMs) / (count - 1) >= SLOW_MS;
