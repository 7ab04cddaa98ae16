/**
 * What a detector keeps by name: at most `max` entries, each until it was idle for `idleMs` of event time.
 * When all places are taken, a quarter is cleared at once: what is idle, then what is worth least, the oldest
 * first. So a flood of new names cannot push out those that were seen doing something.
 */
import type { Saved } from './detector.js';
import { listOf, numberOf, recordOf, textOf, type Row } from './saved.js';

export type EntryRules<E> = Readonly<{
  max: number;
  idleMs: number;
  lastMs(entry: E): number;
  /** 0 to 31, whole: how much is lost with it. */
  worth(entry: E): number;
}>;

export type Entries<E> = Readonly<{
  /** Undefined where it is unknown or has been idle for too long. */
  get(name: string, nowMs: number): E | undefined;
  /** Takes the place of an entry of the same name. */
  add(name: string, entry: E, nowMs: number): void;
  /** Idle ones included. */
  all(): ReadonlyMap<string, E>;
  size(): number;
  /** Entries given up for others. */
  dropped(): number;
  save(write: (entry: E) => Row): Saved;
}>;

const LEVELS = 32;
const CLEARED = 0.25;

/** `read` makes an entry of what `write` gave. */
export function createEntries<E>(
  rules: EntryRules<E>,
  saved?: Readonly<{ from: Saved; read: (row: Row, name: string) => E }>,
): Entries<E> {
  const entries = new Map<string, E>();
  let dropped = 0;
  let sweptMs = 0;
  if (saved !== undefined) {
    const record = recordOf(saved.from);
    dropped = numberOf(record['dropped']);
    sweptMs = numberOf(record['sweptMs']);
    for (const one of listOf(record['entries'])) {
      const [name, ...row] = listOf(one);
      entries.set(textOf(name), saved.read(row, textOf(name)));
    }
  }
  const isIdle = (entry: E, nowMs: number): boolean => nowMs - rules.lastMs(entry) > rules.idleMs;
  const sweep = (nowMs: number): void => {
    sweptMs = nowMs;
    for (const [name, entry] of entries) if (isIdle(entry, nowMs)) entries.delete(name);
  };
  return {
    get(name, nowMs) {
      const entry = entries.get(name);
      return entry === undefined || isIdle(entry, nowMs) ? undefined : entry;
    },
    add(name, entry, nowMs) {
      if (nowMs - sweptMs > rules.idleMs / 2) sweep(nowMs);
      if (entries.size >= rules.max && !entries.has(name)) {
        sweep(nowMs);
        dropped += giveUp(entries, rules);
      }
      entries.set(name, entry);
    },
    all: () => entries,
    size: () => entries.size,
    dropped: () => dropped,
    save: (write) => ({
      dropped,
      sweptMs,
      entries: [...entries].map(([name, entry]) => [name, ...write(entry)]),
    }),
  };
}

/** Leaves three quarters; answers how many had to go. */
function giveUp<E>(entries: Map<string, E>, { max, worth }: EntryRules<E>): number {
  const toDrop = entries.size - Math.floor(max * (1 - CLEARED));
  if (toDrop <= 0) return 0;
  const levelOf = (entry: E): number => Math.max(0, Math.min(LEVELS - 1, Math.floor(worth(entry))));
  const levels = new Array<number>(LEVELS).fill(0);
  for (const entry of entries.values()) levels[levelOf(entry)]! += 1;
  let cut = 0;
  let left = toDrop;
  while (left > levels[cut]!) left -= levels[cut++]!;
  for (const [name, entry] of entries) {
    const level = levelOf(entry);
    if (level < cut || (level === cut && left-- > 0)) entries.delete(name);
  }
  return toDrop;
}
