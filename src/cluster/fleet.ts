/** The workers: forked, watched, replaced with back-off, told of a new config, drained. */
import cluster, { type Worker } from 'node:cluster';
import type { Channel } from '../core/channel.js';
import { nextRestart } from './backoff.js';
import { ipcChannel } from './ipc-channel.js';

export type FleetHooks = Readonly<{
  /** A worker is there and can be spoken to. */
  onOpen: (member: Member) => void;
  onGone: (member: Member, how: string, restartMs: number | undefined) => void;
}>;

export type Member = Readonly<{ id: number; pid: number; channel: Channel; startedMs: number }>;

export type Fleet = {
  start(count: number): void;
  members(): readonly Member[];
  /** No worker is replaced any more; resolves when all are gone, killing those left after `ms`. */
  stop(ms: number): Promise<void>;
};

export function createFleet(script: string, hooks: FleetHooks): Fleet {
  const members = new Map<number, { member: Member; worker: Worker }>();
  let deaths = 0;
  let stopping = false;
  cluster.setupPrimary({ exec: script, args: [], serialization: 'json', silent: false });

  const open = (): void => {
    const worker = cluster.fork();
    const channel = ipcChannel(worker, () => worker.isConnected());
    const member: Member = { id: worker.id, pid: worker.process.pid ?? 0, channel, startedMs: Date.now() };
    members.set(worker.id, { member, worker });
    worker.on('error', () => undefined);
    worker.once('exit', (code, signal) => {
      members.delete(worker.id);
      if (stopping) return hooks.onGone(member, signal ?? `code ${code}`, undefined);
      const next = nextRestart(deaths, Date.now() - member.startedMs);
      deaths = next.deaths;
      hooks.onGone(member, signal ?? `code ${code}`, next.waitMs);
      setTimeout(() => {
        if (!stopping) open();
      }, next.waitMs);
    });
    hooks.onOpen(member);
  };

  return {
    start(count) {
      for (let index = 0; index < count; index++) open();
    },
    members: () => [...members.values()].map((entry) => entry.member),
    async stop(ms) {
      stopping = true;
      const until = Date.now() + ms;
      while (members.size > 0 && Date.now() < until) await new Promise((resolve) => setTimeout(resolve, 20));
      for (const { worker } of members.values()) worker.process.kill('SIGKILL');
      while (members.size > 0 && Date.now() < until + 2_000) await new Promise((resolve) => setTimeout(resolve, 20));
    },
  };
}
