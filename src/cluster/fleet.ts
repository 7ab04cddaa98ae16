/**
 * The workers: forked, watched, each replaced with a back-off of its own place, drained, killed where they
 * stay.
 */
import cluster, { type Worker } from 'node:cluster';
import type { Channel } from '../core/channel.js';
import { nextRestart } from './backoff.js';
import { ipcChannel } from './ipc-channel.js';

export type FleetHooks = Readonly<{
  /** A worker was forked; it can be spoken to once it has said hello. */
  onOpen: (member: Member) => void;
  /** `restartMs`: when its place is filled again; undefined while the fleet stops. */
  onGone: (member: Member, how: string, restartMs: number | undefined) => void;
}>;

/** `place`: which of the fixed number of places it fills, from 0; `id` is never given twice. */
export type Member = Readonly<{
  id: number;
  place: number;
  pid: number;
  channel: Channel;
  startedMs: number;
}>;

export type Fleet = {
  start(count: number): void;
  members(): readonly Member[];
  /** Ends one that hangs; it is replaced like any that died. */
  end(member: Member): void;
  /** No worker is replaced any more; resolves when all are gone, killing those left after `ms`. */
  stop(ms: number): Promise<void>;
  /** Ends all at once, requests in flight included. */
  kill(): void;
};

/** One of the fixed number of places that the fleet keeps filled. */
type Place = { readonly index: number; deaths: number };

const KILL_WAIT_MS = 2_000;
const LOOK_MS = 20;
/**
 * V8 lets garbage pile up to tens of MB before it first looks at old objects, and gives none of it back. With
 * `lean` it looks at 32 MB, and from then on whenever the heap has grown by 50 %; no flag limits the heap.
 */
const HEAP_FLAGS = {
  fast: ['--max-semi-space-size=16'],
  lean: ['--max-semi-space-size=4', '--initial-old-space-size=32', '--heap-growing-percent=50'],
} as const;

export type WorkerHeap = keyof typeof HEAP_FLAGS;

/** glibc would hold free memory in an arena for each thread; musl takes no notice. */
const ARENAS = { MALLOC_ARENA_MAX: process.env['MALLOC_ARENA_MAX'] ?? '2' };

/**
 * `script` is what each fork runs, with the options that Node itself was started with (a loader for .ts …).
 */
export function createFleet(script: string, heap: WorkerHeap, hooks: FleetHooks): Fleet {
  const members = new Map<number, { member: Member; worker: Worker }>();
  let stopping = false;
  const execArgv = [...process.execArgv, ...HEAP_FLAGS[heap]];
  cluster.setupPrimary({ exec: script, execArgv, args: [], serialization: 'json', silent: false });

  const open = (place: Place): void => {
    if (stopping) return;
    const worker = cluster.fork(ARENAS);
    const channel = ipcChannel(worker, () => worker.isConnected());
    const member: Member = {
      id: worker.id,
      place: place.index,
      pid: worker.process.pid ?? 0,
      channel,
      startedMs: performance.now(),
    };
    members.set(worker.id, { member, worker });
    worker.on('error', (error) => {
      // A fork that failed altogether has no exit; any other error belongs to a line that just broke.
      if (worker.process.pid === undefined) gone(place, member, error.message);
    });
    worker.once('exit', (code, signal) => gone(place, member, signal ?? `code ${code}`));
    hooks.onOpen(member);
  };
  const gone = (place: Place, member: Member, how: string): void => {
    if (!members.delete(member.id)) return;
    if (stopping) return hooks.onGone(member, how, undefined);
    const next = nextRestart(place.deaths, performance.now() - member.startedMs);
    place.deaths = next.deaths;
    hooks.onGone(member, how, next.waitMs);
    setTimeout(() => open(place), next.waitMs);
  };
  const kill = (): void => {
    stopping = true;
    for (const { worker } of members.values()) worker.process.kill('SIGKILL');
  };
  const allGone = async (ms: number): Promise<void> => {
    const untilMs = performance.now() + ms;
    while (members.size > 0 && performance.now() < untilMs) {
      await new Promise((resolve) => setTimeout(resolve, LOOK_MS));
    }
  };
  return {
    start(count) {
      for (let index = 0; index < count; index++) open({ index, deaths: 0 });
    },
    members: () => [...members.values()].map((entry) => entry.member),
    // By the process that was forked, never by a number that another may have by now.
    end: (member) => void members.get(member.id)?.worker.process.kill('SIGKILL'),
    async stop(ms) {
      stopping = true;
      await allGone(ms);
      kill();
      await allGone(KILL_WAIT_MS);
    },
    kill,
  };
}
