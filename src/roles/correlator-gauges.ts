/** What is to be seen of a correlator in metrics, in the supervisor and in a process of its own. */
import type { Metrics } from '../telemetry/metrics.js';
import type { CorrelatorView } from './correlator.js';

type Read = (view: CorrelatorView) => number;
type ReadAll = (view: CorrelatorView) => Readonly<Record<string, number>>;

const PLAIN: readonly [name: string, help: string, read: Read][] = [
  [
    'lag_messages',
    'Messages that wait for the correlator; -1: unknown.',
    ({ consumer }) => consumer.lag ?? -1,
  ],
  ['partitions', 'Partitions it reads now.', ({ consumer }) => consumer.partitions.length],
  ['connected', '1 while it reads.', ({ consumer }) => Number(consumer.connected)],
  ['taken', 'Messages taken, with or without a use.', ({ consumer }) => consumer.taken],
  ['rebalances', 'Times that partitions were assigned anew.', ({ consumer }) => consumer.rebalances],
  ['settle_failures', 'Times that state or offsets could not be saved.', ({ consumer }) => consumer.failures],
  ['bus_given_up', 'Observations that gave way on a full bus in memory.', ({ busDropped }) => busDropped],
  ['leading', '1 while it evaluates for all instances.', ({ engine }) => Number(engine.leading)],
  [
    'event_lag_seconds',
    'Age of the newest event by the wall clock; -1 before the first.',
    ({ engine: { newestMs } }) => (newestMs === undefined ? -1 : Math.max(0, Date.now() - newestMs) / 1_000),
  ],
  ['evaluations', 'Times that the detectors were asked.', ({ engine }) => engine.evaluation.runs],
  ['evaluation_seconds', 'Length of the last one.', ({ engine }) => engine.evaluation.lastMs / 1_000],
  [
    'evaluation_longest_step_seconds',
    'Longest time that one detector held the event loop.',
    ({ engine }) => engine.evaluation.longestStepMs / 1_000,
  ],
  ['state_saves', 'States of partitions saved.', ({ engine }) => engine.saves.saved],
  [
    'state_outrun',
    'States not saved since another instance was further.',
    ({ engine }) => engine.saves.outrun,
  ],
  ['waiting', 'Bans and notes that wait for the book.', ({ engine }) => engine.acts.waiting],
  ['book_failures', 'Times that the book of bans could not be asked.', ({ engine }) => engine.acts.failures],
  ['crawlers_spared', 'Suspects that proved to be welcome crawlers.', ({ engine }) => engine.acts.crawlers],
  ['lost', 'Bans and notes lost since too many waited.', ({ engine }) => engine.acts.lost],
];

const LABELLED: readonly [name: string, label: string, help: string, read: ReadAll][] = [
  ['events', 'fate', 'Events by what became of them.', ({ engine }) => engine.fates],
  ['rejected', 'cause', 'Messages that held no usable event.', ({ engine }) => engine.rejected],
  ['bans', 'outcome', 'What the book of bans answered.', ({ engine }) => engine.acts.outcomes],
  ['held_back', 'why', 'Suspects that were not banned.', ({ engine }) => engine.held],
  ['detector_entries', 'detector', 'Entries that a detector keeps.', ofDetectors('entries')],
  ['detector_dropped', 'detector', 'Entries that found no room.', ofDetectors('dropped')],
  ['detector_failures', 'detector', 'Times that a detector failed.', ofDetectors('failures')],
  [
    'detections',
    'detector',
    'Patterns that a detector sees now.',
    ({ engine }) => Object.fromEntries(engine.evaluation.detections),
  ],
];

function ofDetectors(key: 'entries' | 'dropped' | 'failures'): ReadAll {
  return ({ engine }) => Object.fromEntries(engine.detectors.map((each) => [each.name, each[key]]));
}

/** Those that only go up while one correlator runs. */
const COUNTS = new Set([
  ...['taken', 'rebalances', 'settle_failures', 'bus_given_up', 'evaluations', 'state_saves', 'state_outrun'],
  ...['book_failures', 'crawlers_spared', 'lost', 'events', 'rejected', 'bans', 'held_back'],
  ...['detector_dropped', 'detector_failures'],
]);

/** `view`: undefined where there is no correlator now; then there are no series either. */
export function correlatorGauges(metrics: Metrics, view: () => CorrelatorView | undefined): void {
  for (const [name, help, read] of PLAIN) {
    const open = COUNTS.has(name) ? metrics.counter : metrics.gauge;
    open(`correlator_${name}`, help, () => {
      const now = view();
      return now && read(now);
    });
  }
  for (const [name, label, help, read] of LABELLED) {
    const open = COUNTS.has(name) ? metrics.counters : metrics.gauges;
    open(`correlator_${name}`, {
      help,
      label,
      read: () => {
        const now = view();
        return now === undefined ? [] : Object.entries(read(now));
      },
    });
  }
}
