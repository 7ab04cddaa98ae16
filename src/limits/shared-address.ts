/**
 * How many people an address stands for (offices, carriers, NAT): the sessions and keys behind it that the
 * origin has answered well twice, `apart` from each other, however they came about: one client may have any
 * number of sessions set for it. So many as `growth` allows begin to count; whoever makes sessions up widens
 * the limit no faster than that, to at most `factorMax` times.
 */
import type { Clock } from '../core/clock.js';
import type { LimitsConfig } from './config.js';

/** Per worker; about 150 bytes a session. */
const ADDRESSES_MAX = 10_000;
const SESSIONS_MAX = 50_000;
/** Sessions remembered for one address, for each that can count. */
const CANDIDATES = 4;
const RECOUNT_MS = 5_000;
/** A candidate whose second good answer does not come within so many times `apart` is forgotten. */
const PATIENCE = 10;

export type Session = { firstMs: number; lastMs: number; issued: boolean; proven: boolean };
export type Address = {
  sessions: Map<string, Session>;
  proven: number;
  countedMs: number;
  /** Sessions that began to count since `grownMs`. */
  grown: number;
  grownMs: number;
};

export type SharedAddresses = Readonly<{
  /** How many times its limit the address gets; from 1 to `factorMax`. */
  factor(address: string): number;
  /** The origin answered a request with this session or key well (2xx or 3xx). */
  answered(address: string, session: string): void;
  /** The origin has set this session for somebody behind the address. */
  issued(address: string, session: string): void;
  stats(): Readonly<{ addresses: number; sessions: number; dropped: number }>;
}>;

type Settings = LimitsConfig['sharedAddress'];

/** What was learned; handed on from one config to the next. */
export type AddressBook = { readonly addresses: Map<string, Address>; total: number; dropped: number };

export const createAddressBook = (): AddressBook => ({ addresses: new Map(), total: 0, dropped: 0 });

function newAddress(nowMs: number): Address {
  return { sessions: new Map(), proven: 0, countedMs: nowMs, grown: 0, grownMs: nowMs };
}

/** `book` is this function's alone while it is in use. */
export function createSharedAddresses(
  settings: Settings,
  clock: Clock,
  book: AddressBook = createAddressBook(),
): SharedAddresses {
  const { sessions: threshold, factorMax, apart, idle, growth } = settings;
  const { addresses } = book;
  const perAddress = factorMax * CANDIDATES;
  const patienceMs = Math.min(idle, Math.max(60_000, apart * PATIENCE));

  function forget(key: string, address: Address): void {
    addresses.delete(key);
    book.total -= address.sessions.size;
  }

  /** Recounts now and then, so that those who have left no longer count. */
  function recount(address: Address, nowMs: number): void {
    if (nowMs - address.countedMs < RECOUNT_MS) return;
    address.countedMs = nowMs;
    address.proven = 0;
    for (const [name, session] of address.sessions) {
      if (nowMs - session.lastMs > (session.proven ? idle : patienceMs)) {
        address.sessions.delete(name);
        book.total--;
      } else if (session.proven) address.proven++;
    }
  }

  /** Takes one of the sessions that may begin to count now. */
  function mayGrow(address: Address, nowMs: number): boolean {
    if (nowMs - address.grownMs >= growth.windowMs) {
      address.grownMs = nowMs;
      address.grown = 0;
    }
    if (address.grown >= growth.limit) return false;
    address.grown++;
    return true;
  }

  function open(key: string, nowMs: number): Address {
    let address = addresses.get(key);
    if (address === undefined) address = newAddress(nowMs);
    else addresses.delete(key);
    // Last in the map is the latest seen; the first is the next to go.
    addresses.set(key, address);
    for (const [oldest, found] of addresses) {
      if (addresses.size <= ADDRESSES_MAX && book.total < SESSIONS_MAX) break;
      if (oldest === key) break;
      forget(oldest, found);
      book.dropped++;
    }
    return address;
  }

  function remember(address: Address, name: string, nowMs: number): Session | undefined {
    const known = address.sessions.get(name);
    if (known !== undefined) return known;
    if (address.proven >= factorMax) return undefined;
    if (address.sessions.size >= perAddress) dropOldestCandidate(address);
    if (address.sessions.size >= perAddress || book.total >= SESSIONS_MAX) {
      book.dropped++;
      return undefined;
    }
    const session: Session = { firstMs: nowMs, lastMs: nowMs, issued: false, proven: false };
    address.sessions.set(name, session);
    book.total++;
    return session;
  }

  /** Made-up sessions displace their like first; those that the origin has accepted stay. */
  function dropOldestCandidate({ sessions }: Address): void {
    let victim: string | undefined;
    for (const [name, session] of sessions) {
      if (session.proven) continue;
      victim ??= name;
      if (session.issued) continue;
      victim = name;
      break;
    }
    if (victim === undefined) return;
    sessions.delete(victim);
    book.total--;
    book.dropped++;
  }

  return {
    factor(key) {
      const address = addresses.get(key);
      if (address === undefined) return 1;
      recount(address, clock.nowMs());
      return address.proven < threshold ? 1 : Math.min(factorMax, address.proven);
    },
    answered(key, name) {
      const nowMs = clock.nowMs();
      const address = open(key, nowMs);
      const session = remember(address, name, nowMs);
      if (session === undefined) return;
      session.lastMs = nowMs;
      const again = nowMs > session.firstMs && nowMs - session.firstMs >= apart;
      if (session.proven || !again || !mayGrow(address, nowMs)) return;
      session.proven = true;
      address.proven++;
    },
    issued(key, name) {
      const nowMs = clock.nowMs();
      const session = remember(open(key, nowMs), name, nowMs);
      if (session === undefined) return;
      session.issued = true;
      session.lastMs = nowMs;
    },
    stats: () => ({ addresses: addresses.size, sessions: book.total, dropped: book.dropped }),
  };
}
