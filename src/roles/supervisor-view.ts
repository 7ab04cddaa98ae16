/** What the supervisor shows on its admin listener: readiness, the sum of all metrics, controls. */
import type { AdminState } from '../admin/route.js';
import type { LimitStoreHealth } from '../cluster/messages.js';
import type { Retired } from '../cluster/retired.js';
import type { Roster, WorkerState } from '../cluster/roster.js';
import type { Config } from '../config/schema.js';
import { steadyClock, systemClock } from '../core/clock.js';
import type { DecisionEvent } from '../core/event.js';
import type { MemoryStore } from '../limits/index.js';
import { createMetrics, sumOf, type Metrics } from '../telemetry/metrics.js';
import type { Mode } from './config-change.js';
import { banGauges } from './ban-gauges.js';
import type { BanDesk } from './ban-desk.js';
import { bansView } from './bans-view.js';
import { correlatorGauges } from './correlator-gauges.js';
import type { CorrelatorView } from './correlator.js';
import type { Log } from './engines.js';
import { feedViews, type FeedView } from './feed-view.js';
import { limitsView } from './limits-view.js';
import { operatorStore } from './operator-store.js';

export type Phase = 'starting' | 'running' | 'stopping';

export type View = Readonly<{
  config: () => Config;
  version: () => number;
  phase: () => Phase;
  /** How many workers there should be. */
  wanted: () => number;
  roster: Roster;
  dead: Retired;
  /** Latest first. */
  notable: readonly DecisionEvent[];
  counts: Readonly<{
    restarts: number;
    /** Of these, killed since they hung. */
    hung: number;
    reloads: number;
    refusedReloads: number;
    lostInFlight: number;
  }>;
  store: MemoryStore;
  correlator: () => CorrelatorView | undefined;
  bans: BanDesk;
  hashKey: () => string;
  note: Log;
  askMetrics: () => void;
  reload: () => Promise<void>;
  setMode: (mode: Mode, site: string | undefined) => Promise<void>;
}>;

/** A worker that is too busy to answer is shown by what it said last. */
const METRICS_WAIT_MS = 500;

export function adminState(view: View): AdminState {
  const own = createMetrics(view.config().metrics, { sites: [] });
  registerGauges(own, view);
  correlatorGauges(own, view.correlator);
  banGauges(own, view.bans);
  return {
    notReady: () => notReady(view),
    feeds: () => feedsOf(view),
    limitStore: () => limitStore(view),
    metrics: () => collect(view, own),
    decisions: () => view.notable,
    controls: () => controls(view),
    reload: view.reload,
    sites: () => view.config().sites.map(({ name }) => name),
    setMode: view.setMode,
    ...bansView({ ...view, desk: view.bans }),
    ...limitsView({ ...view, withStore: operatorStore(view.config, view.store) }),
  };
}

function feedsOf(view: View): FeedView[] {
  const now = { wallMs: systemClock.nowMs(), steadyMs: steadyClock.nowMs() };
  return feedViews(view.config().reputation, view.roster.ready(), now);
}

function registerGauges(own: Metrics, view: View): void {
  const { counts, store } = view;
  own.counter('worker_restarts', 'Workers that died and were replaced.', () => counts.restarts);
  own.counter('worker_hangs', 'Workers killed since their event loop hung.', () => counts.hung);
  own.gauge(
    'worker_requests_lost',
    'Requests last seen in flight in workers that died.',
    () => counts.lostInFlight,
  );
  own.counter('reloads', 'Configs taken over since the start.', () => counts.reloads);
  own.counter('reloads_refused', 'Reloads that left the running config in force.', () => counts.refusedReloads);
  own.gauge('limit_keys', 'Identities the counter store holds.', () => store.stats().keys);
  own.gauge(
    'limit_keys_evicted',
    'Identities dropped since the store was full.',
    () => store.stats().evicted,
  );
  const ofFeeds = (read: (feed: FeedView) => number) => () =>
    feedsOf(view).map((feed): [string, number] => [feed.feed, read(feed)]);
  own.gauges('feed_age_seconds', {
    help: 'Since the last good load of a feed, on the worker where it is oldest; -1 before the first.',
    label: 'feed',
    read: ofFeeds((feed) => feed.ageSeconds ?? -1),
  });
  own.gauges('feed_entries', {
    help: 'Entries of a feed in use.',
    label: 'feed',
    read: ofFeeds((feed) => feed.entries),
  });
  own.gauges('feed_ok', {
    help: '1 where the last load of a feed was good, else 0.',
    label: 'feed',
    read: ofFeeds((feed) => (feed.state === 'ok' ? 1 : 0)),
  });
}

/** Once every worker has listened, one that is being replaced leaves the gate ready: the others serve. */
function notReady(view: View): string | undefined {
  const now = view.roster.ready().length;
  switch (view.phase()) {
    case 'starting':
      return `${now} of ${view.wanted()} workers listen`;
    case 'running':
      return now > 0 ? undefined : 'no worker listens';
    case 'stopping':
      return 'the gate is draining';
  }
}

/** Degraded where one worker says so: its limits follow their onFailure. */
function limitStore({ roster }: View): LimitStoreHealth {
  const told = roster.ready().flatMap(({ limits }) => (limits === undefined ? [] : [limits]));
  return told.find(({ state }) => state === 'degraded') ?? told[0] ?? { store: 'embedded', state: 'ok' };
}

async function collect(view: View, own: Metrics): Promise<string> {
  const states = view.roster.ready();
  const before = new Map<WorkerState, unknown>(states.map((state) => [state, state.metrics]));
  view.askMetrics();
  const answered = (state: WorkerState): boolean =>
    state.metrics !== before.get(state) || !view.roster.has(state);
  await view.roster.until(() => states.every(answered), METRICS_WAIT_MS);
  // Whoever died while asked is among the dead already.
  const living = states.filter((state) => view.roster.has(state));
  const known = living.flatMap((state) => (state.metrics === undefined ? [] : [state.metrics]));
  return sumOf([await own.snapshot(), ...known, ...view.dead.snapshots()]);
}

function controls(view: View): Readonly<Record<string, unknown>> {
  const config = view.config();
  const { allowlist, blocklist, tor, asn } = config.reputation;
  return {
    mode: config.mode,
    version: view.version(),
    phase: view.phase(),
    sites: config.sites.map(({ name, hosts, mode }) => ({ name, hosts, mode: mode ?? config.mode })),
    workers: view.roster.all().map(({ member, ready, version, refused }) => ({
      id: member.id,
      pid: member.pid,
      ready: ready !== undefined,
      rules: ready?.rules,
      version,
      refused: refused?.problem,
    })),
    feeds: { allowlist, blocklist, tor: tor?.file ?? tor?.url, asn: asn?.database },
    limits: view.store.stats(),
    ...view.counts,
  };
}
