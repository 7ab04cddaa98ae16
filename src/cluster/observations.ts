/**
 * The worker's side of the embedded correlator: what it reads of each decision travels to the supervisor in
 * small batches. A line that is full or broken costs observations, counted, and never anything else.
 */
import type { DecisionEvent } from '../core/event.js';
import { observationOf } from '../core/observation.js';
import { packObservation, type PackedObservation } from '../core/packed-observation.js';

/** Topic of the line to the supervisor; the body is a list of packed observations. */
export const OBSERVATIONS_TOPIC = 'correlator.observations';

export type ObservationQueue = Readonly<{
  push(event: DecisionEvent): void;
  /** Sends what waits. */
  flush(): void;
  /** Observations that the supervisor never saw. */
  dropped(): number;
}>;

type Options = Readonly<{
  /** Observations in one message. */
  batch?: number;
  /** Longest wait for a batch to fill. */
  everyMs?: number;
  /** Most messages a second; beyond them observations are dropped. */
  perSecondMax?: number;
}>;

export function createObservations(
  send: (batch: readonly PackedObservation[]) => boolean,
  options: Options = {},
): ObservationQueue {
  const { batch = 100, everyMs = 100, perSecondMax = 300 } = options;
  let waiting: PackedObservation[] = [];
  let dropped = 0;
  let timer: NodeJS.Timeout | undefined;
  let second = 0;
  let sent = 0;
  const flush = (): void => {
    clearTimeout(timer);
    timer = undefined;
    if (waiting.length === 0) return;
    const full = waiting;
    waiting = [];
    const now = Math.floor(performance.now() / 1_000);
    if (now !== second) [second, sent] = [now, 0];
    if (++sent > perSecondMax || !send(full)) dropped += full.length;
  };
  return {
    push(event) {
      waiting.push(packObservation(observationOf(event)));
      if (waiting.length >= batch) flush();
      else timer ??= setTimeout(flush, everyMs).unref();
    },
    flush,
    dropped: () => dropped,
  };
}
