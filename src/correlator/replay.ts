/**
 * Recorded decisions through the detectors, dry: time is that of the events, the book is a private one in
 * memory, and the report says what would have been banned when and why.
 */
import type { Delivered } from '../bus/bus-contract.js';
import type { Ban } from '../controls/ban.js';
import type { AuditEntry, BanBook } from '../controls/ban-book-contract.js';
import type { Clock } from '../core/clock.js';
import type { EngineDeps, EngineStats } from './engine.js';
import { createEngine } from './engine.js';

/** One ban that would have been made; times are event times. */
export type WouldBan = Ban;

export type ReplayReport = Readonly<{
  stats: EngineStats;
  /** In the order in which they would have been made. */
  bans: readonly WouldBan[];
  /** What would have been held back, oldest first. */
  held: readonly AuditEntry[];
  firstMs: number | undefined;
  lastMs: number | undefined;
}>;

export type Replay = Readonly<{
  /** Partitions are opened by themselves; offsets must rise in each. */
  take(delivered: Delivered): Promise<void> | void;
  finish(): Promise<ReplayReport>;
}>;

export type ReplayDeps = Pick<EngineDeps, 'config' | 'listed' | 'screen' | 'log'> &
  Readonly<{
    /** A book of its own, on the clock of the events. */
    openBook: (clock: Clock) => BanBook;
  }>;

const HELD_MAX = 10_000;

export function createReplay(deps: ReplayDeps): Replay {
  let nowMs = -Infinity;
  let firstMs: number | undefined;
  const clock: Clock = { nowMs: () => (nowMs === -Infinity ? 0 : nowMs) };
  const book = deps.openBook(clock);
  const bans: WouldBan[] = [];
  const recording: Pick<BanBook, 'ban' | 'note'> = {
    note: (entry) => book.note(entry),
    async ban(asks) {
      const outcomes = await book.ban(asks);
      for (const { result, ban } of outcomes) if (result === 'made' && ban !== undefined) bans.push(ban);
      return outcomes;
    },
  };
  const engine = createEngine({ ...deps, clock, book: recording });
  const open = new Set<number>();

  function give(delivered: Delivered): Promise<void> | void {
    const { content } = delivered;
    if (typeof content !== 'string') {
      firstMs = Math.min(firstMs ?? Infinity, content.timeMs);
      nowMs = Math.max(nowMs, content.timeMs);
    }
    engine.take(delivered);
    // What an evaluation found is acted on before time goes on.
    if (engine.isActing()) return engine.settle().then(() => undefined);
  }

  return {
    take(delivered) {
      const { partition } = delivered;
      if (open.has(partition)) return give(delivered);
      open.add(partition);
      return engine.open(partition).then(() => give(delivered));
    },
    async finish() {
      await engine.evaluate();
      await engine.settle();
      const held = (await book.audit(HELD_MAX)).filter(({ what }) => what === 'held-back').reverse();
      const stats = engine.stats();
      await engine.close();
      return { stats, bans, held, firstMs, lastMs: nowMs === -Infinity ? undefined : nowMs };
    },
  };
}
