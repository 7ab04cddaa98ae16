/** What a worker shows of the store behind its limits. Without Redis all of them are zero. */
import type { Metrics } from '../telemetry/metrics.js';
import type { LimitStores, SharedStats } from './limit-stores.js';

const STATES = ['closed', 'half-open', 'open'] as const;

export function limitGauges(metrics: Metrics, stores: LimitStores): void {
  const gauges: readonly [name: string, help: string, read: (stats: SharedStats) => number][] = [
    ['redis_connected', 'Workers whose connection to Redis stands.', ({ connected }) => Number(connected)],
    ['redis_connects', 'Connections to Redis made.', ({ connects }) => connects],
    ['redis_in_flight', 'Calls that Redis has not answered yet.', ({ inFlight }) => inFlight],
    ['redis_timeouts', 'Calls that Redis did not answer within the deadline.', ({ timeouts }) => timeouts],
    ['redis_late_answers', 'Answers after the deadline; what they counted stays.', ({ late }) => late],
    ['redis_skipped', 'Requests that did not ask Redis since its breaker was open.', ({ skipped }) => skipped],
    ['redis_overloaded', 'Requests that did not ask since too many waited.', ({ overloaded }) => overloaded],
    ['redis_breaker_opens', 'Times a worker left Redis alone.', ({ opens }) => opens],
    ['redis_gives', 'Give-backs on Cluster: counted in one slot, refused in another.', ({ gives }) => gives],
    ['redis_gives_dropped', 'Give-backs not sent since too many were.', ({ givesDropped }) => givesDropped],
    ['redis_gives_failed', 'Give-backs that Redis did not take.', ({ givesFailed }) => givesFailed],
    ['hot_keys', 'Identities that the hot-key cache counts now.', ({ hot }) => hot?.keys ?? 0],
    ['hot_key_checks', 'Checks answered by the hot-key cache.', ({ hot }) => hot?.local ?? 0],
    ['hot_key_settled', 'Settlements of the hot-key cache with Redis.', ({ hot }) => hot?.settled ?? 0],
    ['hot_key_lost', 'Passed by the cache and never counted: Redis failed.', ({ hot }) => hot?.lost ?? 0],
    ['hot_key_owed', 'Passed by the cache above the limit, taken from what came next.', ({ hot }) => hot?.owed ?? 0],
    ['hot_key_full', 'Hot identities that the full cache left to Redis.', ({ hot }) => hot?.full ?? 0],
    ['redis_script_loads', 'Times Redis had lost the script.', ({ scriptLoads }) => scriptLoads],
  ];
  for (const [name, help, read] of gauges) {
    metrics.gauge(name, help, () => {
      const stats = stores.stats();
      return stats === undefined ? 0 : read(stats);
    });
  }
  metrics.gauges('redis_state', {
    help: 'Workers by the state of their breaker to Redis.',
    label: 'state',
    read: () => STATES.map((state) => [state, Number(stores.stats()?.state === state)] as const),
  });
  metrics.gauges('redis_failures', {
    help: 'Failed calls to Redis, by code of the fault.',
    label: 'code',
    read: () => Object.entries(stores.stats()?.failures ?? {}),
  });
}
