/**
 * What a part of `nearLimit` remembers: for each policy and slot of time, how near its limit each address
 * came. A slot is a minute, or the limit's own window where that is longer, so that the same window never
 * counts twice.
 */
import { z } from 'zod';
import type { Observation } from '../../core/observation.js';
import { textHash } from '../../structures/text-hash.js';
import { openTimeBuckets, type TimeBuckets } from '../../structures/time-buckets.js';
import type { DetectorPart, Saved } from '../detector.js';
import { joined, openSighting, savedSighting, saveSighting, sight, type Sighting } from './sighting.js';

const SLOT_MS = 60_000;
const SLOTS = 12;
const POLICIES_MAX = 256;
/** Beyond, it makes no difference how far over the limit somebody is. */
const PEAK_MAX = 10_000;
const SESSIONS_MAX = 8;

/** Between a policy's name and the length of its slots. */
const ID_END = '\n';
const nameOf = (id: string): string => id.slice(0, id.indexOf(ID_END));

/** Of one address in one slot. `peak`: highest use in thousandths, above 1000 where it went over. */
type Near = {
  peak: number;
  seen: Sighting;
  agent: number;
  keyed: number;
  /** Hash and how often, of the first few. */
  sessions: Map<number, number>;
};
type Slot = Map<string, Near>;
type Policy = Readonly<{ slotMs: number; slots: TimeBuckets<Slot> }>;

export type LimitUsePart = DetectorPart & { readonly policies: ReadonlyMap<string, Policy> };

/** Of one address over all slots: the peak of each, 1 is the limit. */
export type Use = Readonly<{
  peaks: readonly number[];
  seen: Sighting;
  agent: number;
  keyed: number;
  sessions: ReadonlyMap<number, number>;
}>;

const savedNear = z.tuple([
  z.string(),
  z.number(),
  savedSighting,
  z.number(),
  z.number(),
  z.array(z.tuple([z.number(), z.number()])),
]);
const savedPolicy = z.tuple([
  z.string(),
  z.number().min(1),
  z.array(z.tuple([z.number(), z.array(savedNear)])),
]);
const savedPart = z.tuple([z.literal('nearLimit/1'), z.number(), z.number(), z.array(savedPolicy)]);

export type LimitUseOptions = Readonly<{ entriesMax: number; counts: (seen: Observation) => boolean }>;

export function openLimitUse({ entriesMax, counts }: LimitUseOptions, saved?: Saved): LimitUsePart {
  let held = 0;
  const policies = new Map<string, Policy>();
  const openPolicy = (slotMs: number, slots: readonly (readonly [number, Slot])[] = []): Policy => ({
    slotMs,
    slots: openTimeBuckets<Slot>({
      bucketMs: slotMs,
      keep: SLOTS,
      make: () => new Map(),
      onLeave: (slot) => (held -= slot.size),
      saved: slots,
    }),
  });
  const [, lost, tidied, savedPolicies] = saved === undefined ? [0, 0, 0, []] : savedPart.parse(saved);
  let dropped = lost;
  let tidiedMs = tidied;
  for (const [name, slotMs, slots] of savedPolicies) {
    const opened = slots.map(([at, entries]): [number, Slot] => [at, openSlot(entries)]);
    for (const [, slot] of opened) held += slot.size;
    policies.set(name, openPolicy(slotMs, opened));
  }

  function policyOf({ site, near, timeMs }: Observation): Policy | undefined {
    const { policy, by, windowMs } = near!;
    const slotMs = Math.max(SLOT_MS, windowMs);
    // While a config is rolled out, nodes differ in the window.
    const id = `${policy} by ${by} on ${site}${ID_END}${slotMs}`;
    const known = policies.get(id);
    if (known !== undefined) return known;
    if (policies.size >= POLICIES_MAX) forgetOld(timeMs);
    if (policies.size >= POLICIES_MAX) return undefined;
    const made = openPolicy(slotMs);
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
      if (known !== undefined) note(known, seen);
      else if (makeRoom(policy, seen.timeMs)) {
        slot.set(seen.key, firstOf(seen));
        held++;
      }
    },
    save: () => [
      'nearLimit/1',
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

function firstOf(seen: Observation): Near {
  const near: Near = {
    peak: useOf(seen),
    seen: sight(undefined, seen),
    agent: textHash(seen.userAgent),
    keyed: seen.apiKey === undefined ? 0 : 1,
    sessions: new Map(),
  };
  noteSession(near, seen);
  return near;
}

function note(near: Near, seen: Observation): void {
  near.peak = Math.max(near.peak, useOf(seen));
  sight(near.seen, seen);
  if (seen.apiKey !== undefined) near.keyed++;
  noteSession(near, seen);
}

function noteSession({ sessions }: Near, { session }: Observation): void {
  if (session === undefined) return;
  const hash = textHash(session);
  const count = sessions.get(hash);
  if (count !== undefined || sessions.size < SESSIONS_MAX) sessions.set(hash, (count ?? 0) + 1);
}

function savePolicy(name: string, { slotMs, slots }: Policy): z.output<typeof savedPolicy> {
  const saveNear = ([key, near]: [string, Near]): z.output<typeof savedNear> => {
    const { peak, seen, agent, keyed, sessions } = near;
    return [key, peak, saveSighting(seen), agent, keyed, [...sessions]];
  };
  return [name, slotMs, slots.all().map(([at, slot]) => [at, [...slot].map(saveNear)])];
}

function openSlot(entries: readonly z.output<typeof savedNear>[]): Slot {
  return new Map(
    entries.map(([key, peak, seen, agent, keyed, sessions]): [string, Near] => [
      key,
      { peak, seen: openSighting(seen), agent, keyed, sessions: new Map(sessions) },
    ]),
  );
}

type Gathered = {
  peaks: Map<number, number>;
  seen: Sighting;
  agent: number;
  keyed: number;
  sessions: Map<number, number>;
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
    for (const [id, { slotMs, slots }] of part.policies) {
      const name = nameOf(id);
      let into = all.get(name);
      if (into === undefined) all.set(name, (into = new Map()));
      for (const [at, slot] of slots.since(nowMs - SLOTS * slotMs)) {
        for (const [key, near] of slot) {
          if (often.get(name)!.get(key)! >= slotsMin) gather(into, key, { at, near });
        }
      }
    }
  }
  const finished = ({ peaks, ...rest }: Gathered): Use => ({
    ...rest,
    peaks: [...peaks.values()].map((peak) => peak / 1000),
  });
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

function gather(into: Map<string, Gathered>, key: string, { at, near }: { at: number; near: Near }): void {
  const known = into.get(key);
  if (known === undefined) {
    const { seen, agent, keyed, sessions } = near;
    into.set(key, { peaks: new Map([[at, near.peak]]), seen, agent, keyed, sessions: new Map(sessions) });
    return;
  }
  known.peaks.set(at, Math.max(known.peaks.get(at) ?? 0, near.peak));
  // That of the latest request: the same whatever the order of parts.
  if (near.seen.lastMs > known.seen.lastMs) known.agent = near.agent;
  known.seen = joined(known.seen, near.seen);
  known.keyed += near.keyed;
  for (const [hash, count] of near.sessions)
    known.sessions.set(hash, (known.sessions.get(hash) ?? 0) + count);
}
