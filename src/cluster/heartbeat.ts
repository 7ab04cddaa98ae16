/**
 * Finds workers whose event loop hangs: a process that is there, but serves nobody. Each is asked for a sign
 * of life on every beat. Missed beats are counted, not time: after a pause of the supervisor itself (or of
 * the whole machine) everybody gets the whole time again.
 */
import type { Member } from './fleet.js';
import { TOPICS } from './messages.js';

/** Beats that may be missed in a row; the wait between two is the worker's time divided by it. */
export const BEATS = 5;

/** A worker that still loads its modules may be silent for longer. */
const LOADING_BEATS = BEATS * 6;

export type Heartbeat = {
  /** Follows a worker until `forget`; the answer is called with each sign of life. */
  watch(member: Member): () => void;
  forget(member: Member): void;
  /** Asks all, and hands those over that have been silent too long; each once. */
  beat(): void;
  /** Beats until `stop`, as often as the time of a worker asks for. */
  start(): void;
  stop(): void;
};

type Options = Readonly<{
  /** How long a worker may be silent; 0: for ever. Asked anew for each beat. */
  timeoutMs: () => number;
  /** Gets a worker that missed all its beats. */
  onHung: (member: Member) => void;
}>;

/** How often it is looked whether the heart is to beat again. */
const IDLE_MS = 2_000;

type Watched = { missed: number; spoke: boolean; over: boolean };

export function createHeartbeat({ timeoutMs, onHung }: Options): Heartbeat {
  const watched = new Map<Member, Watched>();
  let timer: NodeJS.Timeout | undefined;
  const beat = (): void => {
    for (const [member, state] of watched) {
      if (state.over) continue;
      if (state.missed >= (state.spoke ? BEATS : LOADING_BEATS)) {
        state.over = true;
        onHung(member);
        continue;
      }
      state.missed++;
      member.channel.send(TOPICS.ping, {});
    }
  };
  const start = (): void => {
    const ms = timeoutMs();
    if (ms > 0) beat();
    timer = setTimeout(start, ms > 0 ? ms / BEATS : IDLE_MS).unref();
  };
  return {
    watch(member) {
      const state: Watched = { missed: 0, spoke: false, over: false };
      watched.set(member, state);
      return () => {
        state.missed = 0;
        state.spoke = true;
      };
    },
    forget: (member) => void watched.delete(member),
    beat,
    start,
    stop: () => clearTimeout(timer),
  };
}
