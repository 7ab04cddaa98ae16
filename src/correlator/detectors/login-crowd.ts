/**
 * Which addresses that fail belong together: more of them than people would be, and alike in what they do.
 * People's part follows from how many got in: some give up, fewer with each attempt.
 */
import type { FailedLoginsConfig } from './login-config.js';
import { keepsSession } from './login-attempts.js';
import type { Sighting } from './sighting.js';
import { bitCount } from './user-bits.js';

/** `users`: bits of those it tried. */
export type Failing = Readonly<{ key: string; failed: Sighting; trait: number; users: number }>;

export type Crowd = Readonly<{
  members: readonly Failing[];
  /** Failed logins that each of them has at least, and from how many addresses on that is no accident. */
  level: number;
  needed: number;
  /** True where each failed seldom: their number alone tells. */
  few: boolean;
}>;

/** How many times the people who give up it takes, and how much fewer go on with each attempt. */
const CLEARLY = 3;
const GOES_ON = 0.5;
const LEVEL_MAX = 1024;
/** Far below what the others of a crowd do: not one of them. */
const CROWD_PART = 4;
/** From here on a way of asking is that of the crowd. */
const CROWD_SHARE = 0.6;
/** Fewer addresses are enough where each fails so many times more often, with many users. */
const HEAVY_FACTOR = 10;
const HEAVY_PART = 0.25;
const HEAVY_USERS = 3;
/** So many times the addresses where each fails only once or twice. */
const FEW_FACTOR = 10;

type Limits = Pick<FailedLoginsConfig, 'failures' | 'addresses' | 'peopleShare'>;

/** `accepted`: addresses with a good login. The lowest level at which more fail than people would. */
export function findCrowd(limits: Limits, failing: readonly Failing[], accepted: number): Crowd | undefined {
  const { failures, addresses } = limits;
  for (let level = failures; level <= LEVEL_MAX; level *= 2) {
    const left = failing.filter(({ failed }) => failed.count >= level);
    if (left.length < addresses) break;
    const needed = Math.max(addresses, CLEARLY * peopleAt(limits, level, accepted));
    if (left.length < needed) continue;
    const members = alike(left, commonTrait(left));
    return members.length < addresses ? undefined : { members, level, needed, few: false };
  }
  return heavy(limits, failing) ?? few(limits, failing, accepted);
}

/** A few addresses that do nothing else. */
function heavy({ failures, addresses }: Limits, failing: readonly Failing[]): Crowd | undefined {
  const level = failures * HEAVY_FACTOR;
  const needed = Math.max(2, Math.ceil(addresses * HEAVY_PART));
  const members = failing.filter(
    ({ failed, users }) => failed.count >= level && bitCount(users) >= HEAVY_USERS,
  );
  return members.length < needed ? undefined : { members, level, needed, few: false };
}

const peopleAt = ({ peopleShare, failures }: Limits, level: number, accepted: number): number =>
  accepted * peopleShare * GOES_ON ** (level - failures);

/** Thousands that try once or twice each, all with one tool that keeps no session, as a browser would. */
function few(limits: Limits, failing: readonly Failing[], accepted: number): Crowd | undefined {
  const needed = Math.max(FEW_FACTOR * limits.addresses, CLEARLY * peopleAt(limits, 1, accepted));
  if (failing.length < needed) return undefined;
  const common = commonTrait(failing);
  if (common === undefined || keepsSession(common)) return undefined;
  const members = failing.filter(({ trait }) => trait === common);
  return members.length < needed ? undefined : { members, level: 1, needed, few: true };
}

function commonTrait(failing: readonly Failing[]): number | undefined {
  const traits = new Map<number, number>();
  for (const { trait } of failing) traits.set(trait, (traits.get(trait) ?? 0) + 1);
  return [...traits].find(([, count]) => count >= CROWD_SHARE * failing.length)?.[0];
}

/**
 * Those who do as the others do. A person who gave up after four attempts is not one of a bot's seventy, and
 * one with a browser is none of a tool's. Attackers who mix tools to hide in this are found later, when the
 * many of them are banned.
 */
function alike(failing: readonly Failing[], common: number | undefined): readonly Failing[] {
  const counts = failing.map(({ failed }) => failed.count).sort((a, b) => a - b);
  const least = (counts[counts.length >> 1] ?? 0) / CROWD_PART;
  return failing.filter(
    ({ failed, trait }) => failed.count >= least && (common === undefined || trait === common),
  );
}
