/** A real Redis Cluster for tests: three masters with a replica each; slots can be moved step by step. */
import { execFileSync } from 'node:child_process';
import { setTimeout as sleep } from 'node:timers/promises';
import { type RedisServer, startRedis } from './redis.js';

export type RedisCluster = Readonly<{
  servers: readonly RedisServer[];
  addresses: readonly string[];
  slotOf(key: string): Promise<number>;
  /** The master that serves a slot now. */
  masterOf(slot: number): Promise<RedisServer>;
  /** Keys and all, as redis-cli does it; `halfway` runs while one key has moved and the rest has not. */
  moveSlot(slot: number, to: RedisServer, halfway: () => Promise<void>): Promise<void>;
  stop(): Promise<void>;
}>;

const READY_MS = 20_000;

export async function startCluster(): Promise<RedisCluster> {
  const enabled = ['--cluster-enabled', 'yes', '--cluster-node-timeout', '1000'];
  const tuned = ['--cluster-require-full-coverage', 'no', '--repl-diskless-sync-delay', '0'];
  const servers = await Promise.all(Array.from({ length: 6 }, () => startRedis([...enabled, ...tuned])));
  const stop = async (): Promise<void> => void (await Promise.all(servers.map((server) => server.stop())));
  try {
    const addresses = servers.map(({ port }) => `127.0.0.1:${port}`);
    const create = ['--cluster', 'create', ...addresses, '--cluster-replicas', '1', '--cluster-yes'];
    execFileSync('redis-cli', create, { timeout: 60_000, stdio: 'ignore' });
    await ready(servers);
    return { servers, addresses, ...movesOf(servers), stop };
  } catch (error) {
    await stop();
    throw error;
  }
}

/** Every node knows all slots, and every replica has its master's data. */
async function ready(servers: readonly RedisServer[]): Promise<void> {
  const untilMs = Date.now() + READY_MS;
  for (const { client } of servers) {
    for (;;) {
      const state = String(await client.cluster('INFO'));
      const role = await client.info('replication');
      if (/cluster_state:ok/.test(state) && /connected_slaves:1|master_link_status:up/.test(role)) break;
      if (Date.now() > untilMs) throw new Error('the cluster did not become ready');
      await sleep(50);
    }
  }
}

const idOf = async ({ client }: RedisServer): Promise<string> => String(await client.call('CLUSTER', 'MYID'));

function movesOf(servers: readonly RedisServer[]) {
  const living = (): RedisServer[] =>
    servers.filter(({ process: { exitCode, signalCode } }) => exitCode === null && signalCode === null);
  const masterOf = async (slot: number): Promise<RedisServer> => {
    const ranges = await living()[0]!.client.cluster('SLOTS');
    const range = ranges.find(([first, last]) => slot >= first && slot <= last);
    const server = servers.find(({ port }) => port === range?.[2]?.[1]);
    if (server === undefined) throw new Error(`nobody serves slot ${slot}`);
    return server;
  };
  return {
    masterOf,
    slotOf: async (key: string): Promise<number> => Number(await living()[0]!.client.cluster('KEYSLOT', key)),
    async moveSlot(slot: number, to: RedisServer, halfway: () => Promise<void>): Promise<void> {
      const from = await masterOf(slot);
      const [fromId, toId] = [await idOf(from), await idOf(to)];
      await to.client.call('CLUSTER', 'SETSLOT', slot, 'IMPORTING', fromId);
      await from.client.call('CLUSTER', 'SETSLOT', slot, 'MIGRATING', toId);
      for (let moved = 0; ; moved++) {
        const [key] = (await from.client.call('CLUSTER', 'GETKEYSINSLOT', slot, 1)) as string[];
        if (key === undefined) break;
        if (moved === 1) await halfway();
        await from.client.call('MIGRATE', '127.0.0.1', to.port, key, 0, 5_000);
      }
      for (const { client } of [to, from]) await client.call('CLUSTER', 'SETSLOT', slot, 'NODE', toId);
    },
  };
}
