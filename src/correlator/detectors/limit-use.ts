/**
 * What a part of `nearLimit` remembers: for each policy and slot of time, how near its limit each address
 * came in each window of the limit. A slot is a minute of such windows, or one window where that is longer.
 */
import { z } from 'zod';
import type { Observation } from '../../core/observation.js';
import { textHash } from '../../structures/text-hash.js';
import { openTimeBuckets, type TimeBuckets } from '../../structures/time-buckets.js';
import type { DetectorPart, Saved } from '../detector.js';
import {
  addPath,
  createPathBits,
  distinctPaths,
  readPathBits,
  writePathBits,
  type PathBits,
} from '../path-bits.js';
import { joined, openSighting, savedSighting, saveSighting, sight, type Sighting } from './sighting.js';

export const SLOT_MS = 60_000;
/** Shorter windows are taken together. */
const WINDOW_MS_MIN = 5_000;
const SLOTS = 12;
const POLICIES_MAX = 256;
/** Beyond, it makes no difference how far over the limit somebody is. */
const PEAK_MAX = 10_000;
const SESSIONS_MAX = 8;

/** Between a policy's name and the length of its windows. */
const ID_END = '\n';
const nameOf = (id: string): string => id.slice(0, id.indexOf(ID_END));

/** Of one address in one slot. */
type Near = {
  /** Highest use in each window, in thousandths; above 1000 where it went over, 0 where it was not near. */
  peaks: number[];
  limit: number;
  seen: Sighting;
  agent: number;
  keyed: number;
  /** Hash and how often, of the first few. */
  sessions: Map<number, number>;
  /** What it asked for, with the user it named. */
  paths: PathBits;
};
type Slot = Map<string, Near>;
type Policy = Readonly<{ windowMs: number; slotMs: number; slots: TimeBuckets<Slot> }>;

export type LimitUsePart = DetectorPart & { readonly policies: ReadonlyMap<string, Policy> };

/** Of one address over all slots. */
export type Use = Readonly<{
  windowMs: number;
  /** Start of each window that has ended and in which it was near, in order, and its peak; 1 is the limit. */
  peaks: readonly (readonly [startMs: number, peak: number])[];
  /** Requests in those windows, also those before it was near. */
  requests: number;
  /** About how many different paths it asked for while it was near. */
  paths: number;
  /** The requests made while it was near. */
  seen: Sighting;
  agent: number;
  keyed: number;
  sessions: ReadonlyMap<number, number>;
}>;

const savedNear = z.tuple([
  z.string(),
  z.array(z.number()).min(1),
  z.number(),
  savedSighting,
  z.number(),
  z.number(),
  z.array(z.tuple([z.number(), z.number()])),
  z.string(),
]);
const savedPolicy = z.tuple([
  z.string(),
  z.number().min(1),
  z.array(z.tuple([z.number(), z.array(savedNear)])),
]);
const savedPart = z.tuple([z.literal('nearLimit/2'), z.number(), z.number(), z.array(savedPolicy)]);

export type LimitUseOptions = Readonly<{ entriesMax: number; counts: (seen: Observation) => boolean }>;

export function openLimitUse({ entriesMax, counts }: LimitUseOptions, saved?: Saved): LimitUsePart {
  let held = 0;
  const policies = new Map<string, Policy>();
  const openPolicy = (windowMs: number, slots: readonly (readonly [number, Slot])[] = []): Policy => {
    const slotMs = Math.ceil(SLOT_MS / windowMs) * windowMs;
    const onLeave = (slot: Slot): void => void (held -= slot.size);
    const options = { bucketMs: slotMs, keep: SLOTS, make: () => new Map(), onLeave, saved: slots };
    return { windowMs, slotMs, slots: openTimeBuckets<Slot>(options) };
  };
  const [, lost, tidied, savedPolicies] = saved === undefined ? [0, 0, 0, []] : savedPart.parse(saved);
  let dropped = lost;
  let tidiedMs = tidied;
  for (const [name, windowMs, slots] of savedPolicies) {
    const opened = slots.map(([at, entries]): [number, Slot] => [at, openSlot(entries)]);
    for (const [, slot] of opened) held += slot.size;
    policies.set(name, openPolicy(windowMs, opened));
  }

  function policyOf({ site, near, timeMs }: Observation): Policy | undefined {
    const { policy, by } = near!;
    const windowMs = Math.max(WINDOW_MS_MIN, Math.ceil(near!.windowMs));
    // While a config is rolled out, nodes differ in the window.
    const id = `${policy} by ${by} on ${site}${ID_END}${windowMs}`;
    const known = policies.get(id);
    if (known !== undefined) return known;
    if (policies.size >= POLICIES_MAX) forgetOld(timeMs);
    if (policies.size >= POLICIES_MAX) return undefined;
    const made = openPolicy(windowMs);
    policies.set(id, made);
    return made;
  }

  /** Once a slot: a flood of policies must not cost a look at all of them each time. */
  function forgetOld(nowMs: number): void {
    if (nowMs < tidiedMs + SLOT_MS) return;
    tidiedMs = nowMs;
    for (const [id, { slots, slotMs }] of policies) {
      if (slots.since(nowMs - (SLOTS + 1) * slotMs).length > 0) continue;
      for (const [, slot] of slots.all()) held -= slot.size;
      policies.delete(id);
    }
  }

  function makeRoom({ slots }: Policy, timeMs: number): boolean {
    const before = held;
    if (before < entriesMax) return true;
    dropped += slots.giveUpOldest(timeMs) ? before - held : 1;
    return held < entriesMax;
  }

  return {
    policies,
    observe(seen) {
      if (!counts(seen)) return;
      const policy = policyOf(seen);
      const slot = policy?.slots.at(seen.timeMs);
      if (policy === undefined || slot === undefined) {
        dropped++;
        return;
      }
      const known = slot.get(seen.key);
      if (known !== undefined) note(known, policy, seen);
      else if (makeRoom(policy, seen.timeMs)) {
        slot.set(seen.key, firstOf(policy, seen));
        held++;
      }
    },
    save: () => [
      'nearLimit/2',
      dropped,
      tidiedMs,
      [...policies].map(([name, policy]) => savePolicy(name, policy)),
    ],
    size: () => held,
    dropped: () => dropped,
  };
}

const useOf = ({ near }: Observation): number =>
  Math.min(PEAK_MAX, Math.round((1000 * near!.used) / near!.limit));

function firstOf(policy: Policy, seen: Observation): Near {
  const near: Near = {
    peaks: new Array<number>(policy.slotMs / policy.windowMs).fill(0),
    limit: 0,
    seen: { count: 0, firstMs: seen.timeMs, lastMs: seen.timeMs, ids: [] },
    agent: textHash(seen.userAgent),
    keyed: 0,
    sessions: new Map(),
    paths: createPathBits(),
  };
  note(near, policy, seen);
  return near;
}

function note(near: Near, { windowMs }: Policy, seen: Observation): void {
  const window = Math.floor(seen.timeMs / windowMs) % near.peaks.length;
  near.peaks[window] = Math.max(near.peaks[window]!, useOf(seen));
  near.limit = Math.max(near.limit, seen.near!.limit);
  sight(near.seen, seen);
  if (seen.apiKey !== undefined) near.keyed++;
  noteSession(near, seen);
  addPath(near.paths, seen.user === undefined ? seen.path : `${seen.path} ${seen.user}`);
}

function noteSession({ sessions }: Near, { session }: Observation): void {
  if (session === undefined) return;
  const hash = textHash(session);
  const count = sessions.get(hash);
  if (count !== undefined || sessions.size < SESSIONS_MAX) sessions.set(hash, (count ?? 0) + 1);
}

function savePolicy(name: string, { windowMs, slots }: Policy): z.output<typeof savedPolicy> {
  const saveNear = ([key, near]: [string, Near]): z.output<typeof savedNear> => {
    const { peaks, limit, seen, agent, keyed, sessions, paths } = near;
    const bits = String(writePathBits(paths));
    return [key, [...peaks], limit, saveSighting(seen), agent, keyed, [...sessions], bits];
  };
  return [name, windowMs, slots.all().map(([at, slot]) => [at, [...slot].map(saveNear)])];
}

function openSlot(entries: readonly z.output<typeof savedNear>[]): Slot {
  return new Map(
    entries.map(([key, peaks, limit, seen, agent, keyed, sessions, paths]): [string, Near] => [
      key,
      {
        ...{ peaks: [...peaks], limit, seen: openSighting(seen), agent, keyed },
        ...{ sessions: new Map(sessions), paths: readPathBits(paths) },
      },
    ]),
  );
}

type Gathered = {
  readonly windowMs: number;
  /** By start of the window: the peak, and the requests that it stands for. */
  readonly windows: Map<number, Readonly<{ peak: number; requests: number }>>;
  seen: Sighting | undefined;
  agent: number;
  keyed: number;
  readonly sessions: Map<number, number>;
  readonly paths: PathBits;
};

type Look = Readonly<{ nowMs: number; slotsMin: number }>;

/**
 * All parts as one, by policy and address: those that may have been near in `slotsMin` of the last twelve
 * slots. Most were near once, and are passed by before anything is put together.
 */
export function gatherUse(
  parts: readonly LimitUsePart[],
  { nowMs, slotsMin }: Look,
): ReadonlyMap<string, ReadonlyMap<string, Use>> {
  const often = oftenNear(parts, nowMs);
  const all = new Map<string, Map<string, Gathered>>();
  for (const part of parts) {
    for (const [id, { windowMs, slotMs, slots }] of part.policies) {
      const name = nameOf(id);
      let into = all.get(name);
      if (into === undefined) all.set(name, (into = new Map()));
      const counts = often.get(name)!;
      for (const [atMs, slot] of slots.since(nowMs - SLOTS * slotMs)) {
        for (const [key, near] of slot) {
          if (counts.get(key)! < slotsMin) continue;
          let known = into.get(key);
          if (known === undefined) into.set(key, (known = newGathered(near, windowMs)));
          gather(known, near, { atMs, nowMs });
        }
      }
    }
  }
  return new Map(
    [...all].map(([name, uses]) => [name, new Map([...uses].map(([key, use]) => [key, finished(use)]))]),
  );
}

/** By policy and address, in how many slots; one of several parts counts for each, so never too few. */
function oftenNear(parts: readonly LimitUsePart[], nowMs: number): Map<string, Map<string, number>> {
  const all = new Map<string, Map<string, number>>();
  for (const part of parts) {
    for (const [id, { slotMs, slots }] of part.policies) {
      const name = nameOf(id);
      let counts = all.get(name);
      if (counts === undefined) all.set(name, (counts = new Map()));
      for (const [, slot] of slots.since(nowMs - SLOTS * slotMs)) {
        for (const key of slot.keys()) counts.set(key, (counts.get(key) ?? 0) + 1);
      }
    }
  }
  return all;
}

const newGathered = ({ agent }: Near, windowMs: number): Gathered => ({
  ...{ windowMs, windows: new Map(), seen: undefined, agent, keyed: 0 },
  ...{ sessions: new Map(), paths: createPathBits() },
});

type Times = Readonly<{ atMs: number; nowMs: number }>;

/** Windows that have not ended say nothing yet. */
function gather(into: Gathered, near: Near, { atMs, nowMs }: Times): void {
  const { windowMs, windows } = into;
  for (const [at, peak] of near.peaks.entries()) {
    const startMs = atMs + at * windowMs;
    if (peak === 0 || startMs + windowMs > nowMs) continue;
    const known = windows.get(startMs);
    const requests = Math.round((peak * near.limit) / 1000);
    windows.set(startMs, {
      peak: Math.max(known?.peak ?? 0, peak),
      requests: Math.max(known?.requests ?? 0, requests),
    });
  }
  // That of the latest request: the same whatever the order of parts.
  if (into.seen === undefined || near.seen.lastMs > into.seen.lastMs) into.agent = near.agent;
  into.seen = joined(into.seen, near.seen);
  into.keyed += near.keyed;
  for (const [hash, count] of near.sessions)
    into.sessions.set(hash, (into.sessions.get(hash) ?? 0) + count);
  for (let at = 0; at < into.paths.length; at++) into.paths[at]! |= near.paths[at]!;
}

function finished({ windows, seen, paths, ...rest }: Gathered): Use {
  const peaks = [...windows].map(([startMs, { peak }]) => [startMs, peak / 1000] as const);
  let requests = 0;
  for (const one of windows.values()) requests += one.requests;
  return {
    ...rest,
    peaks: peaks.sort(([a], [b]) => a - b),
    requests,
    paths: distinctPaths(paths),
    seen: seen!,
  };
}
