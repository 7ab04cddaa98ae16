/**
 * A bounded queue in which the less important give way: three lanes, each in order of arrival, read as one.
 * Adding, giving way and reading cost the same however much waits.
 */
import type { DecisionEvent } from '../core/event.js';
import type { Refusal } from '../core/observation.js';

/** 0: passed, 1: limited or failed, 2: refused. */
export type Importance = 0 | 1 | 2;

/** `seq` rises from one added to the next. */
export type Item = Readonly<{ seq: number; bytes: number }>;

export type Bounds = Readonly<{ count: number; bytes: number }>;

export type Lanes<T extends Item> = Readonly<{
  /** Answers how many gave way or, where all others are more important, 1 for the item itself. */
  add(item: T, importance: Importance): number;
  /** The oldest without those that `fits` no more; at most `max`. They leave the queue. */
  take(max: number, fits: (item: T) => boolean): T[];
  /** From this `seq` on, oldest first, at most `max`; they stay. */
  from(seq: number, max: number): T[];
  /** Everything below leaves the queue. */
  release(seq: number): void;
  count(): number;
  bytes(): number;
}>;

export function importanceOf({ action, wouldBe }: Pick<DecisionEvent, 'action' | 'wouldBe'>): Importance {
  const verdict = wouldBe ?? action;
  if (verdict === 'block') return 2;
  return verdict === 'pass' || verdict === 'observe' ? 0 : 1;
}

export function importanceOfRefusal(refusal: Refusal): Importance {
  if (refusal === 'none') return 0;
  return refusal === 'limit' ? 1 : 2;
}

/** `bounds`: what waits at most. */
export function createLanes<T extends Item>(bounds: Bounds): Lanes<T> {
  const lanes = [new Lane<T>(), new Lane<T>(), new Lane<T>()] as const;
  let count = 0;
  let bytes = 0;
  const left = (item: T): void => {
    count--;
    bytes -= item.bytes;
  };
  const isFull = (more: number): boolean => count + 1 > bounds.count || bytes + more > bounds.bytes;
  return {
    add(item, importance) {
      if (item.bytes > bounds.bytes) return 1;
      let gone = 0;
      for (let lane = 0; lane <= importance && isFull(item.bytes);) {
        const oldest = lanes[lane]!.shift();
        if (oldest === undefined) lane++;
        else {
          left(oldest);
          gone++;
        }
      }
      if (isFull(item.bytes)) return gone + 1;
      lanes[importance].push(item);
      count++;
      bytes += item.bytes;
      return gone;
    },
    take(max, fits) {
      const out: T[] = [];
      while (out.length < max) {
        const lane = oldestOf(lanes, [lanes[0].start, lanes[1].start, lanes[2].start]);
        const item = lane === undefined ? undefined : lanes[lane]!.first();
        if (item === undefined || !fits(item)) break;
        lanes[lane!]!.shift();
        left(item);
        out.push(item);
      }
      return out;
    },
    from(seq, max) {
      const at = lanes.map((lane) => lane.find(seq)) as [number, number, number];
      const out: T[] = [];
      while (out.length < max) {
        const lane = oldestOf(lanes, at);
        if (lane === undefined) break;
        out.push(lanes[lane]!.items[at[lane]!++]!);
      }
      return out;
    },
    release(seq) {
      for (const lane of lanes) {
        for (let first; (first = lane.first()) !== undefined && first.seq < seq;) left(lane.shift()!);
      }
    },
    count: () => count,
    bytes: () => bytes,
  };
}

function oldestOf<T extends Item>(
  lanes: readonly Lane<T>[],
  at: readonly [number, number, number],
): number | undefined {
  let oldest: number | undefined;
  let least = Infinity;
  for (let lane = 0; lane < lanes.length; lane++) {
    const item = lanes[lane]!.items[at[lane]!];
    if (item === undefined || item.seq >= least) continue;
    least = item.seq;
    oldest = lane;
  }
  return oldest;
}

const COMPACT_FROM = 1024;

/** First in, first out; `items` before `start` have left. */
class Lane<T extends Item> {
  items: T[] = [];
  start = 0;

  first(): T | undefined {
    return this.items[this.start];
  }

  push(item: T): void {
    this.items.push(item);
  }

  shift(): T | undefined {
    const item = this.items[this.start];
    if (item === undefined) return undefined;
    this.start++;
    // Copying half of it, each half of the time, costs each item a constant.
    if (this.start >= COMPACT_FROM && this.start * 2 >= this.items.length) {
      this.items = this.items.slice(this.start);
      this.start = 0;
    }
    return item;
  }

  /** Index of the first from this `seq` on. */
  find(seq: number): number {
    let low = this.start;
    let high = this.items.length;
    while (low < high) {
      const middle = (low + high) >>> 1;
      if (this.items[middle]!.seq < seq) low = middle + 1;
      else high = middle;
    }
    return low;
  }
}
