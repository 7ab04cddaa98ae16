/** What the supervisor knows of each worker, and waiting until that is as wished. */
import type { MetricSnapshot } from '../telemetry/metrics.js';
import type { FeedStatus } from '../reputation/source.js';
import type { Member } from './fleet.js';
import type { LimitStoreHealth, Ready } from './messages.js';

export type WorkerState = {
  readonly member: Member;
  /** It said hello and is handed every config since. */
  greeted: boolean;
  ready: Ready | undefined;
  /** Of the config in force there; 0 before the first. */
  version: number;
  /** The latest config it could not carry out. */
  refused: Readonly<{ version: number; problem: string }> | undefined;
  metrics: MetricSnapshot | undefined;
  /** How its feeds stood, and when it said so (steady clock). */
  feeds: Readonly<{ statuses: readonly FeedStatus[]; atMs: number }> | undefined;
  /** Where it counts and whether that works, as it said last. */
  limits: LimitStoreHealth | undefined;
};

export type Roster = {
  add(member: Member): WorkerState;
  remove(id: number): WorkerState | undefined;
  /** In the order of their start. */
  all(): readonly WorkerState[];
  ready(): readonly WorkerState[];
  has(state: WorkerState): boolean;
  /** Something changed: all who wait look again. */
  stir(): void;
  /** Resolves with true once `done` holds, with false after `ms`. */
  until(done: () => boolean, ms: number): Promise<boolean>;
  /** Undefined once the worker runs on that config, or is gone; else what keeps it from that. */
  takesOver(state: WorkerState, version: number, ms: number): Promise<string | undefined>;
};

export function createRoster(): Roster {
  const states = new Map<number, WorkerState>();
  const waiting = new Set<() => void>();
  const stir = (): void => {
    for (const look of [...waiting]) look();
  };
  const has = (state: WorkerState): boolean => states.get(state.member.id) === state;
  const until = (done: () => boolean, ms: number): Promise<boolean> => {
    if (done()) return Promise.resolve(true);
    return new Promise((resolve) => {
      const end = (held: boolean): void => {
        clearTimeout(timer);
        waiting.delete(look);
        resolve(held);
      };
      const look = (): void => {
        if (done()) end(true);
      };
      const timer = setTimeout(() => end(done()), ms);
      waiting.add(look);
    });
  };
  return {
    add(member) {
      const state: WorkerState = {
        member,
        greeted: false,
        ready: undefined,
        version: 0,
        refused: undefined,
        metrics: undefined,
        feeds: undefined,
        limits: undefined,
      };
      states.set(member.id, state);
      return state;
    },
    remove(id) {
      const state = states.get(id);
      states.delete(id);
      return state;
    },
    all: () => [...states.values()],
    ready: () => [...states.values()].filter((state) => state.ready !== undefined),
    has,
    stir,
    until,
    async takesOver(state, version, ms) {
      const isOpen = (): boolean => has(state) && state.version < version;
      const refusal = (): string | undefined =>
        state.refused?.version === version ? state.refused.problem : undefined;
      await until(() => !isOpen() || refusal() !== undefined, ms);
      if (!isOpen()) return undefined;
      return refusal() ?? `worker ${state.member.id} did not take it over in ${ms / 1_000} s`;
    },
  };
}
