/** What is to be seen of bans in metrics. */
import type { Metrics } from '../telemetry/metrics.js';
import type { BanDesk } from './ban-desk.js';
import type { SourceStats } from './ban-source.js';

const PLAIN: readonly [name: string, help: string, read: (stats: SourceStats) => number][] = [
  ['bans_followed_version', 'Version of the list of bans in use.', ({ version }) => version],
  [
    'bans_age_seconds',
    'Since the list of bans in Redis was last seen; 0 without Redis, -1 before the first time.',
    ({ ageMs }) => (ageMs < 0 ? -1 : ageMs / 1_000),
  ],
  ['bans_poll_failures', 'Times that the bans in Redis could not be read.', ({ failures }) => failures],
  ['bans_changes_missed', 'Times that a change was found by looking, not told.', ({ missed }) => missed],
  ['bans_restored', 'Bans put back into a Redis that had lost them.', ({ restored }) => restored],
  ['bans_gave_way', 'Bans that gave way to more severe ones.', ({ gaveWay }) => gaveWay],
  ['bans_full', 'Bans for which there was no room.', ({ full }) => full],
  ['bans_forgotten', 'Subjects whose earlier bans were forgotten for want of room.', ({ forgotten }) => forgotten],
];

const STATES = new Set(['bans_followed_version', 'bans_age_seconds']);

export function banGauges(metrics: Metrics, desk: Pick<BanDesk, 'active' | 'stats'>): void {
  metrics.gauges('bans_active', {
    help: 'Bans in force, by mode.',
    label: 'mode',
    read: () => Object.entries(desk.active()),
  });
  for (const [name, help, read] of PLAIN) {
    const open = STATES.has(name) ? metrics.gauge : metrics.counter;
    open(name, help, () => {
      const stats = desk.stats();
      return stats === undefined ? 0 : read(stats);
    });
  }
}
