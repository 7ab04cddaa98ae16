/**
 * Stage 6: after the answer. Events wait in a bounded queue and are worked off in small batches between
 * requests.
 */
import type { DecisionEvent } from '../core/event.js';
import type { LogConfig } from './config.js';
import type { EventLog } from './log.js';
import type { Metrics } from './metrics.js';
import { redactEvent } from './redact.js';
import { serializeEvent } from './serialize.js';

export type Telemetry = {
  /** Never throws, never waits. */
  emit(event: DecisionEvent): void;
  /** Events that were lost: the queue was full, or they could not be written down. */
  dropped(): number;
  /** Works off what waits. */
  flush(): void;
};

type Deps = Readonly<{
  log: EventLog;
  metrics: Metrics;
  /** Gets every event that did not simply pass, redacted. */
  notable: (event: DecisionEvent) => void;
  /** Gets every event, passed ones too whatever the log leaves out. */
  publish?: Publish | undefined;
}>;

/** `withLine`: it wants the event's JSON too. */
export type Publish = Readonly<{
  withLine: boolean;
  send: (event: DecisionEvent, line: string | undefined) => void;
}>;

const BATCH = 64;

/** `config.queueEvents` bounds what waits; beyond it events are dropped and counted. */
export function createTelemetry(config: LogConfig, deps: Deps): Telemetry {
  const queue: DecisionEvent[] = [];
  let scheduled = false;
  let dropped = 0;

  const work = (count: number): void => {
    const batch = queue.splice(0, count);
    for (const event of batch) {
      try {
        write(event);
      } catch {
        // One event that cannot be written down is lost and counted; it never ends the worker.
        dropped++;
      }
    }
  };
  const write = (event: DecisionEvent): void => {
    deps.metrics.record(event);
    const quiet = event.action === 'pass';
    const isLogged = !quiet || config.passed;
    const { publish } = deps;
    if (!isLogged && publish === undefined) return;
    const safe = redactEvent(event, config.fieldMax);
    const line = isLogged || publish?.withLine === true ? serializeEvent(safe) : undefined;
    if (isLogged) deps.log.line(line!);
    if (!quiet) deps.notable(safe);
    publish?.send(safe, line);
  };
  const tick = (): void => {
    work(BATCH);
    scheduled = queue.length > 0;
    if (scheduled) setImmediate(tick);
  };
  return {
    emit(event) {
      if (queue.length >= config.queueEvents) {
        dropped++;
        return;
      }
      queue.push(event);
      if (scheduled) return;
      scheduled = true;
      setImmediate(tick);
    },
    dropped: () => dropped,
    flush: () => work(queue.length),
  };
}
