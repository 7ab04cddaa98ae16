/** Logins of many addresses, told in one line each: who, as whom, with which answer, how often. */
import type { Observation } from '../../core/observation.js';
import { ipv4, observation, START_MS } from './scene.js';

export type Tries = Readonly<{
  addresses: number;
  each: number;
  /** After the start; the next attempt of the same address `everyMs` later, the next address `apartMs`. */
  atMs: number;
  everyMs: number;
  apartMs: number;
  /** First number of the addresses. */
  from: number;
  method: string;
  path: (at: number, attempt: number) => string;
  status: (at: number, attempt: number) => number;
  user: (at: number, attempt: number) => string | undefined;
  /** Its header fields. */
  software: (at: number) => string;
  session: (at: number) => string | undefined;
}>;

/** A tool by default: from each of 58 addresses five failed logins within a minute, each as another user. */
export function tries(over: Partial<Tries> = {}): Observation[] {
  const of: Tries = {
    addresses: 58,
    each: 5,
    atMs: 3_600_000,
    everyMs: 11_000,
    apartMs: 100,
    from: 45,
    method: 'POST',
    path: () => '/login',
    status: () => 401,
    user: (at, attempt) => `victim-${at}-${attempt}`,
    software: () => 'tool',
    session: () => undefined,
    ...over,
  };
  const made: Observation[] = [];
  for (let at = 0; at < of.addresses; at++) {
    for (let attempt = 0; attempt < of.each; attempt++) {
      const status = of.status(at, attempt);
      made.push(
        observation({
          timeMs: START_MS + of.atMs + at * of.apartMs + attempt * of.everyMs,
          requestId: `${of.from}-${of.atMs}-${at}-${attempt}`,
          ip: ipv4(of.from, at),
          headerHash: of.software(at),
          session: of.session(at),
          user: of.user(at, attempt),
          method: of.method,
          path: of.path(at, attempt),
          status,
          upstreamStatus: status,
        }),
      );
    }
  }
  return made.sort((a, b) => a.timeMs - b.timeMs);
}

const BROWSERS = ['chromium', 'chromium', 'chromium', 'webkit', 'gecko'];

/** People with a browser and one name each. */
export const people = (over: Partial<Tries> = {}): Observation[] =>
  tries({
    addresses: 200,
    from: 80,
    software: (at) => BROWSERS[at % BROWSERS.length]!,
    session: (at) => `session-${over.from ?? 80}-${at}`,
    user: (at) => `person-${over.from ?? 80}-${at}`,
    ...over,
  });

/** An hour of people who get in at once, two a minute. */
export const usualLogins = (over: Partial<Tries> = {}): Observation[] =>
  people({ addresses: 120, each: 1, atMs: 0, apartMs: 29_000, from: 90, status: () => 302, ...over });
