/**
 * What a part remembers of good logins for longer than its window: which users got in from an address, and
 * with which software people get in. Bounded; what was seen once gives way first.
 */
import type { Observation } from '../../core/observation.js';
import type { Saved } from '../detector.js';
import { createEntries, type Entries } from '../entries.js';
import { numberOf, recordOf, type Row } from '../saved.js';
import { softwareOf } from './login-attempts.js';
import { bitCount, userBit, withUsers } from './user-bits.js';

type Entry = { bits: number; count: number; lastMs: number };

export type LoginPast = Readonly<{
  /** Of a good login. */
  observe(observation: Observation): void;
  /** Bits of the users that got in from there. */
  usersOf(site: string, key: string): number;
  /** Bits of the addresses that got in with it. */
  addressesWith(site: string, software: number): number;
  size(): number;
  dropped(): number;
  save(): Saved;
}>;

const IDLE_MS = 24 * 3_600_000;
const SOFTWARE_MAX = 1_000;
/** So many addresses got in with what people use. */
const PEOPLE_MIN = 5;

export function openLoginPast(max: number, saved?: Saved): LoginPast {
  const record = saved === undefined ? undefined : recordOf(saved);
  const addresses = openEntries(max, record?.['addresses']);
  const software = openEntries(SOFTWARE_MAX, record?.['software']);
  return {
    observe({ site, key, user, headerHash, timeMs }) {
      if (user !== undefined) note(addresses, `${key} ${site}`, { bit: userBit(user), timeMs });
      note(software, `${softwareOf(headerHash)} ${site}`, { bit: userBit(key), timeMs });
    },
    usersOf: (site, key) => addresses.all().get(`${key} ${site}`)?.bits ?? 0,
    addressesWith: (site, of) => software.all().get(`${of} ${site}`)?.bits ?? 0,
    size: () => addresses.size() + software.size(),
    dropped: () => addresses.dropped() + software.dropped(),
    save: () => ({ addresses: addresses.save(row), software: software.save(row) }),
  };
}

const row = ({ bits, count, lastMs }: Entry): Row => [bits, count, lastMs];

function openEntries(max: number, from: Saved | undefined): Entries<Entry> {
  return createEntries<Entry>(
    {
      max,
      idleMs: IDLE_MS,
      lastMs: ({ lastMs }) => lastMs,
      worth: ({ bits, count }) => bitCount(bits) + Math.log2(count),
    },
    from === undefined
      ? undefined
      : {
          from,
          read: ([bits, count, lastMs]) => ({
            bits: numberOf(bits),
            count: numberOf(count),
            lastMs: numberOf(lastMs),
          }),
        },
  );
}

type Noted = Readonly<{ bit: number; timeMs: number }>;

function note(entries: Entries<Entry>, name: string, { bit, timeMs }: Noted): void {
  const entry = entries.get(name, timeMs);
  if (entry === undefined) return entries.add(name, { bits: bit, count: 1, lastMs: timeMs }, timeMs);
  entry.bits = withUsers(entry.bits, bit);
  entry.count++;
  if (timeMs > entry.lastMs) entry.lastMs = timeMs;
}

/** What all parts remember, as one. */
export type KnownPeople = Readonly<{
  usersOf(site: string, key: string): number;
  /** True for software with which several addresses got in. */
  isPeoples(site: string, software: number): boolean;
}>;

export function knownPeople(pasts: readonly LoginPast[]): KnownPeople {
  const joined = (bitsOf: (past: LoginPast) => number): number =>
    pasts.reduce((bits, past) => withUsers(bits, bitsOf(past)), 0);
  return {
    usersOf: (site, key) => joined((past) => past.usersOf(site, key)),
    isPeoples: (site, software) =>
      bitCount(joined((past) => past.addressesWith(site, software))) >= PEOPLE_MIN,
  };
}
