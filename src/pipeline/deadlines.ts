/**
 * One timer for the deadlines of all requests that wait on a store: they all wait equally long, so that the
 * first to begin is the first to be over. Starting and stopping a timer for each costs more than the waiting.
 */

export type Deadline = { readonly dueMs: number; readonly over: () => void };

export type Deadlines = Readonly<{
  /** Calls `over` once, unless taken back before. */
  start(over: () => void): Deadline;
  /** False when it was over already. */
  stop(deadline: Deadline): boolean;
}>;

/** `ms` from 1. The process stays alive while a deadline runs, as with a timer of its own. */
export function createDeadlines(ms: number): Deadlines {
  const running = new Set<Deadline>();
  let timer: NodeJS.Timeout | undefined;

  function tick(): void {
    timer = undefined;
    const nowMs = performance.now();
    for (const deadline of running) {
      if (deadline.dueMs > nowMs) {
        timer = setTimeout(tick, deadline.dueMs - nowMs);
        return;
      }
      running.delete(deadline);
      deadline.over();
    }
  }

  return {
    start(over) {
      const deadline = { dueMs: performance.now() + ms, over };
      if (timer === undefined) timer = setTimeout(tick, ms);
      else if (running.size === 0) timer.ref();
      running.add(deadline);
      return deadline;
    },
    stop(deadline) {
      const stopped = running.delete(deadline);
      if (running.size === 0) timer?.unref();
      return stopped;
    },
  };
}
