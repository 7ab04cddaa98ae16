/**
 * Recorded decisions through the detectors, dry: time is that of the events, the book is a private one in
 * memory, and the report says what would have been banned when and why. Whom it banned is refused from then
 * on, as the gate would, for as long as the ban lasts: what was recorded of it meanwhile counts for nothing.
 */
import type { Delivered } from '../bus/bus-contract.js';
import type { Ban } from '../controls/ban.js';
import type { AuditEntry, BanBook } from '../controls/ban-book-contract.js';
import type { Clock } from '../core/clock.js';
import type { Observation } from '../core/observation.js';
import type { EngineDeps, EngineStats } from './engine.js';
import { createEngine } from './engine.js';
import { createMatcher, type Matcher } from './subject-matcher.js';

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
  const blocklist = createBlocklist();
  const recording: Pick<BanBook, 'ban' | 'note'> = {
    note: (entry) => book.note(entry),
    async ban(asks) {
      const outcomes = await book.ban(asks);
      for (const { result, ban } of outcomes) {
        if (ban === undefined || (result !== 'made' && result !== 'replaced')) continue;
        if (result === 'made') bans.push(ban);
        if (ban.mode === 'enforce') blocklist.add(ban);
      }
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
    const isRefused = blocklist.refuses(content);
    engine.take(isRefused ? { ...delivered, content: { ...content, refusal: 'ban' } } : delivered);
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

type Blocklist = Readonly<{
  add(ban: Ban): void;
  /** By event time. */
  refuses(content: Delivered['content']): content is Observation;
}>;

function createBlocklist(): Blocklist {
  let active: Ban[] = [];
  let matcher: Matcher | undefined;
  return {
    add(ban) {
      active.push(ban);
      matcher = undefined;
    },
    refuses(content): content is Observation {
      if (typeof content === 'string' || active.length === 0) return false;
      for (;;) {
        matcher ??= createMatcher(active.map(({ subject }) => subject));
        const at = matcher.find(content);
        if (at < 0) return false;
        if (active[at]!.untilMs > content.timeMs) return content.timeMs >= active[at]!.sinceMs;
        active = active.filter(({ untilMs }) => untilMs > content.timeMs);
        matcher = undefined;
      }
    },
  };
}
