/**
 * Where delayed requests wait: so many at once and no more. A client that leaves frees its place; when the
 * worker drains, the doors open and all go on at once.
 */
import type { EventEmitter } from 'node:events';
import type { Decision } from '../core/decision.js';
import type { LimitState } from '../core/finding.js';

export type WaitingRoom = Readonly<{
  /** Calls `go` after `ms`, or never once `client` has closed. False: full, the request has to be refused. */
  enter(wait: Readonly<{ ms: number; max: number }>, client: EventEmitter, go: () => void): boolean;
  /** Lets everybody go on now, and from now on nobody wait. */
  open(): void;
  stats(): Readonly<{ waiting: number; refused: number }>;
}>;

export function createWaitingRoom(): WaitingRoom {
  const waiting = new Set<() => void>();
  let refused = 0;
  let opened = false;
  return {
    enter({ ms, max }, client, go) {
      if (opened) {
        go();
        return true;
      }
      if (waiting.size >= max) {
        refused++;
        return false;
      }
      const leave = (): void => {
        clearTimeout(timer);
        waiting.delete(pass);
        client.off('close', leave);
      };
      const pass = (): void => {
        leave();
        go();
      };
      const timer = setTimeout(pass, ms);
      waiting.add(pass);
      client.on('close', leave);
      return true;
    },
    open() {
      opened = true;
      for (const pass of [...waiting]) pass();
    },
    stats: () => ({ waiting: waiting.size, refused }),
  };
}

/** What a request is told for which no place was left: to come back when its wait would have been over. */
export function noPlace(ms: number, said: LimitState | undefined): Decision {
  const reason = 'too many requests wait for their turn already';
  const limit = said === undefined ? {} : { limit: { ...said, retryAfterMs: ms } };
  return { action: 'limit', status: 429, reason, ruleIds: [], wouldChange: 'fewer requests at once', ...limit };
}
