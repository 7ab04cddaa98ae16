/**
 * The worker's side of the embedded correlator: what it reads of each decision travels to the supervisor in
 * small batches. A line that is full or broken costs observations, counted, and never anything else.
 */
import type { DecisionEvent } from '../core/event.js';
import { observationOf } from '../core/observation.js';
import { packObservation } from '../core/packed-observation.js';

/** Topic of the line to the supervisor; the body is a `ObservationBatch`. */
export const OBSERVATIONS_TOPIC = 'correlator.observations';

/** How many, and the packed observations, one a line. */
export type ObservationBatch = readonly [count: number, lines: string];

/** The batch in what came over the line; undefined for anything else. */
export function asObservationBatch(body: unknown): ObservationBatch | undefined {
  if (!Array.isArray(body) || body.length !== 2) return undefined;
  const [count, lines] = body as unknown[];
  if (typeof count !== 'number' || !(count > 0) || typeof lines !== 'string') return undefined;
  return [count, lines];
}

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
  send: (batch: ObservationBatch) => boolean,
  options: Options = {},
): ObservationQueue {
  const { batch = 400, everyMs = 200, perSecondMax = 150 } = options;
  let lines = '';
  let waiting = 0;
  let dropped = 0;
  let timer: NodeJS.Timeout | undefined;
  let second = 0;
  let sent = 0;
  const flush = (): void => {
    clearTimeout(timer);
    timer = undefined;
    if (waiting === 0) return;
    const full: ObservationBatch = [waiting, lines];
    [waiting, lines] = [0, ''];
    const now = Math.floor(performance.now() / 1_000);
    if (now !== second) [second, sent] = [now, 0];
    if (++sent > perSecondMax || !send(full)) dropped += full[0];
  };
  return {
    push(event) {
      const line = packObservation(observationOf(event));
      lines = waiting === 0 ? line : `${lines}\n${line}`;
      if (++waiting >= batch) flush();
      else timer ??= setTimeout(flush, everyMs).unref();
    },
    flush,
    dropped: () => dropped,
  };
}
