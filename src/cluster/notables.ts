/**
 * The worker's side of `/decisions`: under an attack every request is notable, and the line to the supervisor
 * also carries the limits. So only the latest few of each moment travel, in one message; the log has all of
 * them.
 */
import type { DecisionEvent } from '../core/event.js';

export type NotableQueue = {
  push(event: DecisionEvent): void;
  /** Sends what waits. */
  flush(): void;
  /** Decisions that the supervisor never saw. */
  skipped(): number;
};

type Options = Readonly<{ max?: number; everyMs?: number }>;

export function createNotables(
  send: (events: readonly DecisionEvent[]) => boolean,
  options: Options = {},
): NotableQueue {
  const { max = 50, everyMs = 250 } = options;
  let waiting: DecisionEvent[] = [];
  let skipped = 0;
  let timer: NodeJS.Timeout | undefined;
  const flush = (): void => {
    clearTimeout(timer);
    timer = undefined;
    if (waiting.length === 0) return;
    const events = waiting;
    waiting = [];
    if (!send(events)) skipped += events.length;
  };
  return {
    push(event) {
      if (waiting.length >= max) {
        waiting.shift();
        skipped++;
      }
      waiting.push(event);
      timer ??= setTimeout(flush, everyMs).unref();
    },
    flush,
    skipped: () => skipped,
  };
}
