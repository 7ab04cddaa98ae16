/**
 * When the audit trail is told of what is held back: once an hour for the same thing, and at once where most
 * of those it is about are others than last time, at most once a minute: that is another attack.
 */
import { LRUCache } from 'lru-cache';
import { hash32 } from '../structures/text-hash.js';

export type HeldNotes = Readonly<{
  /** True where it is to be told now. `about`: names of all suspects; none where `name` tells. */
  isDue(name: string, about: readonly string[], nowMs: number): boolean;
}>;

const AGAIN_MS = 3_600_000;
const OTHERS_MS = 60_000;
const NAMES_MAX = 10_000;
/** Of large crowds, those with the lowest hash stand for all. */
const ABOUT_MAX = 256;

type Told = Readonly<{ atMs: number; about: ReadonlySet<number> }>;

export function createHeldNotes(): HeldNotes {
  const told = new LRUCache<string, Told>({ max: NAMES_MAX });
  return {
    isDue(name, about, nowMs) {
      const last = told.get(name);
      const isYoung = last !== undefined && nowMs - last.atMs < AGAIN_MS;
      if (isYoung && (about.length === 0 || nowMs - last.atMs < OTHERS_MS)) return false;
      const few = new Set(lowest(about));
      if (isYoung && [...few].filter((hash) => last.about.has(hash)).length * 2 >= few.size) return false;
      told.set(name, { atMs: nowMs, about: few });
      return true;
    },
  };
}

function lowest(names: readonly string[]): number[] {
  const hashes = names.map(hash32);
  return hashes.length <= ABOUT_MAX ? hashes : hashes.sort((a, b) => a - b).slice(0, ABOUT_MAX);
}
