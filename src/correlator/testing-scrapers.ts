/** Made traffic of scrapers for tests: one that rotates its token, one that keeps an even pace. */
import type { Observation } from '../core/observation.js';
import { createDice, observation, START_MS } from './testing/index.js';

const AGENT =
  'Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/141.0.0.0 Safari/537.36';

export type Rotation = Readonly<{
  seed: number;
  /** Each goes its own way through the catalogue, with its own address and ASN. */
  workers: number;
  lengthMs: number;
  /** Mean pause between two requests of a worker. */
  pauseMs: number;
  /** Requests with one token, at least and at most. */
  perToken: readonly [number, number];
  asns: readonly (number | undefined)[];
  kind: 'session' | 'apiKey';
  /** The address of a worker's token. */
  ipOf(worker: number, token: number): string;
}>;

const ROTATION: Rotation = {
  seed: 1,
  workers: 3,
  lengthMs: 1_200_000,
  pauseMs: 500,
  perToken: [300, 400],
  asns: [64_801, 64_802, 64_803],
  kind: 'session',
  ipOf: (worker) => `10.${20 + worker}.0.1`,
};

/** A list, its products with reviews now and then, the next list; a new token every so often. */
export function rotation(over: Partial<Rotation> = {}): Observation[] {
  const of = { ...ROTATION, ...over };
  const made: Observation[] = [];
  for (let worker = 0; worker < of.workers; worker++) {
    const dice = createDice(of.seed * 1000 + worker);
    let atMs = dice.next() * 20_000;
    let step = worker * 100_000;
    for (let token = 0; atMs < of.lengthMs; token++) {
      const name = `scraper-${worker}-${token}`;
      const ip = of.ipOf(worker, token);
      const requests = of.perToken[0] + dice.int(of.perToken[1] - of.perToken[0] + 1);
      for (let at = 0; at < requests && atMs < of.lengthMs; at++) {
        made.push(
          observation({
            timeMs: Math.floor(START_MS + atMs),
            requestId: `${name}-${at}`,
            ip,
            key: ip,
            asn: of.asns[worker % of.asns.length],
            userAgent: AGENT,
            session: of.kind === 'session' ? name : undefined,
            apiKey: of.kind === 'apiKey' ? name : undefined,
            path: pathAt(step, dice.next()),
            status: 200,
          }),
        );
        step += 1;
        atMs += dice.exponential(of.pauseMs);
      }
      atMs += dice.between(500, 5_000);
    }
  }
  return made.sort((a, b) => a.timeMs - b.timeMs);
}

function pathAt(step: number, chance: number): string {
  if (step % 25 === 0) return `/c/${Math.floor(step / 25)}`;
  // Now and then one is skipped, or its reviews are fetched.
  return chance < 0.08 ? `/p/${step}/reviews` : `/p/${step}`;
}

export type Walk = Readonly<{
  seed: number;
  lengthMs: number;
  pauseMs: number;
  /** The pause varies by this share of it, evenly. */
  jitter: number;
  client: Partial<Observation>;
  path(step: number): string;
}>;

const WALK: Walk = {
  seed: 1,
  lengthMs: 900_000,
  pauseMs: 4_000,
  jitter: 0,
  client: { ip: '10.30.0.1', key: '10.30.0.1', session: 'walker' },
  path: (step) => `/p/${step}`,
};

export function walk(over: Partial<Walk> = {}): Observation[] {
  const { seed, lengthMs, pauseMs, jitter, client, path } = { ...WALK, ...over };
  const dice = createDice(seed);
  const made: Observation[] = [];
  for (let atMs = 0; atMs < lengthMs;) {
    const step = made.length;
    made.push(
      observation({
        timeMs: Math.floor(START_MS + atMs),
        requestId: `walk-${step}`,
        userAgent: AGENT,
        path: path(step),
        ...client,
      }),
    );
    // The network adds some milliseconds.
    atMs += pauseMs * dice.between(1 - jitter, 1 + jitter) + dice.exponential(15);
  }
  return made;
}
