/**
 * How the reputation feeds stand over all workers, each of which loads its own copy: the worst of them
 * speaks. A configured feed that nobody has loaded yet is shown as waiting; it judges nobody and holds
 * nothing up.
 */
import type { Config } from '../config/schema.js';
import type { WorkerState } from '../cluster/roster.js';
import type { FeedName, FeedStatus } from '../reputation/source.js';

export type FeedView = Readonly<{
  feed: FeedName;
  /** `failing`: the last load failed and the last good version is in use; `waiting`: none was loaded yet. */
  state: 'ok' | 'failing' | 'waiting';
  entries: number;
  /** ISO 8601, UTC; null before the first success. */
  lastSuccess: string | null;
  /** Since then; null before. */
  ageSeconds: number | null;
  lastError: string | null;
}>;

/** One view of each configured feed, in the order of the pipeline. `now`: wall and steady milliseconds. */
export function feedViews(
  config: Config['reputation'],
  states: readonly Pick<WorkerState, 'feeds'>[],
  now: Readonly<{ wallMs: number; steadyMs: number }>,
): FeedView[] {
  const names = (['allowlist', 'blocklist', 'tor', 'asn'] as const).filter(
    (name) => config[name] !== undefined,
  );
  return names.map((feed) => {
    const told = states.flatMap(({ feeds }) =>
      (feeds?.statuses ?? [])
        .filter((status) => status.feed === feed)
        .map((status) => ({ ...status, ageMs: grown(status.ageMs, now.steadyMs - (feeds?.atMs ?? 0)) })),
    );
    const [first, ...others] = told;
    return first === undefined ? WAITING(feed) : viewOf(others.reduce(worse, first), now.wallMs);
  });
}

const WAITING = (feed: FeedName): FeedView => ({
  feed,
  state: 'waiting',
  entries: 0,
  lastSuccess: null,
  ageSeconds: null,
  lastError: null,
});

/** A report ages while it lies here. */
const grown = (ageMs: number, byMs: number): number => (ageMs < 0 ? ageMs : ageMs + Math.max(0, byMs));

function worse(a: FeedStatus, b: FeedStatus): FeedStatus {
  const older = a.ageMs < 0 || (b.ageMs >= 0 && a.ageMs >= b.ageMs) ? a : b;
  return {
    ...older,
    ok: a.ok && b.ok,
    entries: Math.min(a.entries, b.entries),
    problem: older.problem ?? a.problem ?? b.problem,
  };
}

function viewOf({ feed, entries, ageMs, ok, problem }: FeedStatus, wallMs: number): FeedView {
  if (ageMs < 0) return { ...WAITING(feed), lastError: problem ?? null };
  return {
    feed,
    state: ok ? 'ok' : 'failing',
    entries,
    lastSuccess: new Date(wallMs - ageMs).toISOString(),
    ageSeconds: Math.round(ageMs / 1000),
    lastError: problem ?? null,
  };
}
