/**
 * An even sample of the requests that were served well, minute by minute: those with the lowest hash of the
 * request id, at most `perMinute` of them (bottom-k; Beyer et al., "On synopses for distinct-value estimation
 * under multiset operations", 2007). Samples of several partitions join into one without a bias: each minute
 * keeps what lies under the lowest bar of all.
 */
import type { Observation } from '../core/observation.js';
import type { GoodRequest, Saved } from './detector.js';
import { hash32 } from '../structures/text-hash.js';

const PER_MINUTE = 96;
const MINUTE_MS = 60_000;
const MINUTES = 15;
const BAR_OPEN = 2 ** 32;

type Kept = Readonly<{ hash: number; request: GoodRequest }>;
/** `bar`: only hashes below it are in `kept`. */
type Minute = { bar: number; kept: Kept[] };
type Minutes = ReadonlyMap<number, Minute>;

export type GoodSample = Readonly<{
  observe(observation: Observation): void;
  save(): Saved;
  size(): number;
  minutes(): Minutes;
}>;

/** `saved`: as `save` gave it. Throws on anything else. */
export function createGoodSample(saved?: Saved, perMinute = PER_MINUTE): GoodSample {
  const minutes = saved === undefined ? new Map<number, Minute>() : read(saved);
  let newest = Math.max(-Infinity, ...minutes.keys());

  function minuteAt(timeMs: number): Minute | undefined {
    const number = Math.floor(timeMs / MINUTE_MS);
    const known = minutes.get(number);
    if (known !== undefined) return known;
    if (number <= newest - MINUTES) return undefined;
    const fresh: Minute = { bar: BAR_OPEN, kept: [] };
    minutes.set(number, fresh);
    if (number > newest) {
      newest = number;
      for (const old of minutes.keys()) if (old <= newest - MINUTES) minutes.delete(old);
    }
    return fresh;
  }

  return {
    observe(observation) {
      if (!isGood(observation)) return;
      const minute = minuteAt(observation.timeMs);
      if (minute === undefined) return;
      const hash = hash32(observation.requestId);
      if (hash >= minute.bar) return;
      insert(minute, { hash, request: pick(observation) });
      if (minute.kept.length > perMinute) minute.bar = minute.kept.pop()!.hash;
    },
    save: () =>
      [...minutes].map(([number, { bar, kept }]): Saved => [
        number,
        bar,
        kept.map(({ hash, request }): Saved => [hash, ...fieldsOf(request)]),
      ]),
    size() {
      let size = 0;
      for (const { kept } of minutes.values()) size += kept.length;
      return size;
    },
    minutes: () => minutes,
  };
}

/** One request of the sample, and how many it stands for. */
export type Weighed = Readonly<{
  request: GoodRequest;
  weight: number;
  /** Start of its minute. */
  atMs: number;
}>;

/** The good requests of all partitions in the quarter of an hour before `nowMs`. */
export function joinSamples(samples: readonly GoodSample[], nowMs: number): Weighed[] {
  const oldest = Math.floor(nowMs / MINUTE_MS) - MINUTES;
  const joined: Weighed[] = [];
  const bars = new Map<number, number>();
  for (const sample of samples) {
    for (const [number, { bar }] of sample.minutes()) {
      bars.set(number, Math.min(bar, bars.get(number) ?? BAR_OPEN));
    }
  }
  for (const sample of samples) {
    for (const [number, { kept }] of sample.minutes()) {
      if (number <= oldest) continue;
      const bar = bars.get(number)!;
      for (const { hash, request } of kept) {
        if (hash < bar) joined.push({ request, weight: BAR_OPEN / bar, atMs: number * MINUTE_MS });
      }
    }
  }
  return joined;
}

function isGood({ refusal, status, upstreamStatus }: Observation): boolean {
  return refusal === 'none' && upstreamStatus >= 200 && upstreamStatus < 400 && status < 400;
}

/** Sorted by hash; equal ones stay in their order. */
function insert({ kept }: Minute, entry: Kept): void {
  let [from, to] = [0, kept.length];
  while (from < to) {
    const middle = (from + to) >> 1;
    if (kept[middle]!.hash <= entry.hash) from = middle + 1;
    else to = middle;
  }
  kept.splice(from, 0, entry);
}

function pick(from: Observation): GoodRequest {
  const { site, ip, key, asn, userAgent, session, apiKey, headerHash, ja4, method, path } = from;
  return { site, ip, key, asn, userAgent, session, apiKey, headerHash, ja4, method, path };
}

function fieldsOf(request: GoodRequest): Saved[] {
  const { site, ip, key, asn, userAgent, session, apiKey, headerHash, ja4, method, path } = request;
  const fields = [site, ip, key, asn, userAgent, session, apiKey, headerHash, ja4, method, path];
  return fields.map((field) => field ?? null);
}

function read(saved: Saved): Map<number, Minute> {
  return new Map(
    rows(saved).map((row) => {
      const [number, bar, kept] = rows(row);
      return [numberIn(number), { bar: numberIn(bar), kept: rows(kept).map(keptIn) }];
    }),
  );
}

function keptIn(row: Saved): Kept {
  const [hash, ...fields] = rows(row);
  const [site, ip, key, asn, userAgent, session, apiKey, headerHash, ja4, method, path] = fields;
  const request = {
    ...{ site: textIn(site), ip: textIn(ip), key: textIn(key), userAgent: textIn(userAgent) },
    ...{ method: textIn(method), path: textIn(path), asn: typeof asn === 'number' ? asn : undefined },
    ...{ session: maybe(session), apiKey: maybe(apiKey), headerHash: maybe(headerHash), ja4: maybe(ja4) },
  };
  return { hash: numberIn(hash), request };
}

function rows(saved: Saved | undefined): readonly Saved[] {
  if (!Array.isArray(saved)) throw new Error('found no list where the sample has one');
  return saved as readonly Saved[];
}

function numberIn(saved: Saved | undefined): number {
  if (typeof saved !== 'number') throw new Error('found no number where the sample has one');
  return saved;
}

const textIn = (saved: Saved | undefined): string => (typeof saved === 'string' ? saved : '');
const maybe = (saved: Saved | undefined): string | undefined =>
  typeof saved === 'string' ? saved : undefined;
