/**
 * One partition as a consumer holds it: what was fetched and not taken yet, decoded when it comes first.
 * Bounded by pausing: whoever fills it asks `isFull`.
 */
import type { Observation } from '../core/observation.js';
import type { Delivered, Reject } from './bus-contract.js';

export type Raw = Readonly<{
  offset: number;
  value: Buffer | Observation | Reject | null;
  /** When the bus took it, milliseconds since the epoch; absent where it does not say. */
  takenMs?: number | undefined;
}>;

export type Decode = (value: Raw['value'], takenMs?: number) => Observation | Reject;

/** Where the source reads on after these messages, and the offset behind the last one on the bus. */
export type Place = Readonly<{ next: number; end: number }>;

export type Slot = {
  readonly partition: number;
  open: boolean;
  /** Event time of the first message; only meaningful after `timeMs` answered it. */
  headMs: number;
  /** Since when nothing is here, by `performance.now`. */
  emptyMs: number;
  add(messages: readonly Raw[], place: Place): void;
  /** Event time of the first message, −∞ for one that holds none; undefined where nothing is here. */
  timeMs(decode: Decode): number | undefined;
  shift(): Delivered;
  /** More is on the bus than was handed over. */
  isBehind(): boolean;
  isFull(): boolean;
  /** True once after it was full. */
  hasRoomAgain(): boolean;
  lag(): number | undefined;
};

export const SLOT_MESSAGES = 4_000;
const SLOT_BYTES = 4 * 1024 ** 2;

export function createSlot(partition: number): Slot {
  let queue: Raw[] = [];
  let start = 0;
  let bytes = 0;
  let head: Delivered | undefined;
  let wasFull = false;
  let place: Place | undefined;
  const isFull = (): boolean => queue.length - start >= SLOT_MESSAGES || bytes >= SLOT_BYTES;
  const slot: Slot = {
    partition,
    open: false,
    headMs: 0,
    emptyMs: performance.now(),
    add(messages, at) {
      place = at;
      for (const message of messages) {
        queue.push(message);
        bytes += sizeOf(message);
      }
      wasFull ||= isFull();
    },
    timeMs(decode) {
      if (head !== undefined) return slot.headMs;
      const first = queue[start];
      if (first === undefined) return undefined;
      const content = decode(first.value, first.takenMs);
      head = { partition, offset: first.offset, content };
      slot.headMs = typeof content === 'string' ? -Infinity : content.timeMs;
      return slot.headMs;
    },
    shift() {
      const delivered = head!;
      head = undefined;
      bytes -= sizeOf(queue[start]!);
      start++;
      if (start === queue.length) {
        queue = [];
        start = 0;
        slot.emptyMs = performance.now();
      } else if (start >= 1024 && start * 2 >= queue.length) {
        queue = queue.slice(start);
        start = 0;
      }
      return delivered;
    },
    isBehind: () => place === undefined || place.next < place.end,
    isFull,
    hasRoomAgain() {
      if (!wasFull || queue.length - start > SLOT_MESSAGES / 2 || bytes > SLOT_BYTES / 2) return false;
      wasFull = false;
      return true;
    },
    lag: () => place && Math.max(0, place.end - (queue[start]?.offset ?? place.next)),
  };
  return slot;
}

const sizeOf = ({ value }: Raw): number => (Buffer.isBuffer(value) ? value.length : 500);
