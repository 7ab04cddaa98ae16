/**
 * Which requests of a partition were seen lately: a publisher that was not sure sends an event again, under
 * a new offset. Two generations of 32-bit hashes, at most `max` each, saved with the partition, so that every
 * owner drops the same ones. Where it stops being right: a repetition more than `max` events later counts as
 * a new event, and one event in a million is taken for another.
 */
import { hash32 } from '../structures/text-hash.js';

const MAX = 4_096;

export type Repeats = Readonly<{
  /** True the first time. */
  isNew(requestId: string): boolean;
  save(): string;
}>;

/** `saved`: text that `save` gave. Throws on other text. */
export function createRepeats(saved?: string, max = MAX): Repeats {
  let [young, old] = saved === undefined ? [new Set<number>(), new Set<number>()] : read(saved);
  return {
    isNew(requestId) {
      const hash = hash32(requestId);
      if (young.has(hash) || old.has(hash)) return false;
      if (young.size >= max) [young, old] = [new Set(), young];
      young.add(hash);
      return true;
    },
    save: () => `${written(young)} ${written(old)}`,
  };
}

function written(hashes: ReadonlySet<number>): string {
  return Buffer.from(Uint32Array.from(hashes).buffer).toString('base64');
}

function read(text: string): [Set<number>, Set<number>] {
  const [young, old, ...more] = text.split(' ');
  if (young === undefined || old === undefined || more.length > 0)
    throw new Error('found no two generations');
  return [setOf(young), setOf(old)];
}

function setOf(text: string): Set<number> {
  const bytes = Buffer.from(text, 'base64');
  const words = new Set<number>();
  for (let at = 0; at + 4 <= bytes.length; at += 4) words.add(bytes.readUInt32LE(at));
  return words;
}
