/**
 * Real Redis servers for tests: ephemeral ports on 127.0.0.1, nothing on disk but a folder that goes with
 * them. Where the machine has no redis-server, `redisMissing` says so and tests skip with it.
 */
import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { createServer, type AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { Redis } from 'ioredis';
import { Fault } from '../../src/core/errors.js';
import type { ScriptExecutor, ScriptReply } from '../../src/redis/executor.js';
import { loadCheckScript } from '../../src/redis/scripts.js';

const START_MS = 10_000;
const STOP_MS = 3_000;
const START_TRIES = 5;

/** False, or why tests with Redis are skipped: for tap's `skip`. */
export const redisMissing: string | false = missing();

function missing(): string | false {
  try {
    const version = execFileSync('redis-server', ['--version'], { encoding: 'utf8', timeout: 5000 });
    const major = Number(/v=(\d+)/.exec(version)?.[1]);
    return major >= 7 ? false : `redis-server 7 or later is needed, found ${version.trim()}`;
  } catch {
    return 'redis-server is not installed';
  }
}

export type RedisServer = Readonly<{
  port: number;
  /** Its data; goes with it. */
  folder: string;
  process: ChildProcess;
  /** A client of its own; ends with the server. */
  client: Redis;
  stop(): Promise<void>;
}>;

/** Starts one server; `extra`: further arguments, such as `['--maxmemory', '4mb']`. */
export async function startRedis(extra: readonly string[] = []): Promise<RedisServer> {
  for (let tries = 1; ; tries++) {
    try {
      return await tryStart(extra);
    } catch (error) {
      // Somebody else may have taken the port between the look and the start.
      if (tries === START_TRIES) throw error;
    }
  }
}

async function tryStart(extra: readonly string[]): Promise<RedisServer> {
  const port = await freePort();
  const folder = mkdtempSync(join(tmpdir(), 'tidegate-redis-'));
  const child = spawnRedis({ port, folder }, extra);
  const client = new Redis(port, '127.0.0.1', { lazyConnect: true, retryStrategy: () => null });
  client.on('error', () => undefined);
  const stop = async (): Promise<void> => {
    client.disconnect();
    await end(child);
    rmSync(folder, { recursive: true, force: true });
  };
  try {
    await answers(port, child);
    await client.connect();
  } catch (error) {
    await stop();
    throw error;
  }
  return { port, folder, process: child, client, stop };
}

/** Nobody waits for it or ends it but the caller: for a server that comes back where another was. */
export function spawnRedis(
  { port, folder }: Readonly<{ port: number; folder: string }>,
  extra: readonly string[] = [],
): ChildProcess {
  const fixed = ['--port', String(port), '--bind', '127.0.0.1', '--dir', folder, '--save', ''];
  return spawn('redis-server', [...fixed, '--appendonly', 'no', ...extra], { stdio: 'ignore' });
}

/** Full: what comes next is above its maxmemory. `policy`: what it evicts then. */
export async function fill(client: Redis, policy: string): Promise<void> {
  await client.config('SET', 'maxmemory-policy', policy);
  const used = Number(/used_memory:(\d+)/.exec(await client.info('memory'))![1]);
  const pipeline = client.pipeline();
  for (let key = 0; key < 3000; key++) pipeline.set(`fill-${key}`, 'x'.repeat(1000), 'EX', 600);
  await pipeline.exec();
  await client.config('SET', 'maxmemory', String(used + 1_000_000));
}

export async function freePort(): Promise<number> {
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as AddressInfo;
  await new Promise((resolve) => server.close(resolve));
  return port;
}

async function answers(port: number, child: ChildProcess): Promise<void> {
  const untilMs = Date.now() + START_MS;
  while (Date.now() < untilMs && child.exitCode === null) {
    const probe = new Redis(port, '127.0.0.1', { lazyConnect: true, retryStrategy: () => null });
    probe.on('error', () => undefined);
    try {
      await probe.connect();
      if ((await probe.ping()) === 'PONG') return;
    } catch {
      await sleep(30);
    } finally {
      probe.disconnect();
    }
  }
  throw new Error(`redis-server did not start on port ${port}`);
}

async function end(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const exited = new Promise<void>((resolve) => child.once('exit', () => resolve()));
  child.kill('SIGTERM');
  const timer = setTimeout(() => child.kill('SIGKILL'), STOP_MS);
  await exited;
  clearTimeout(timer);
}

/**
 * The plainest executor: one pipeline a batch, no deadline, no breaker. `cluster`: have the store send one
 * call per hash tag.
 */
export function plainExecutor(client: Redis, cluster = false): ScriptExecutor {
  const { source, sha1 } = loadCheckScript();
  return {
    cluster,
    async evalBatch(calls) {
      const pipeline = client.pipeline();
      for (const [at, { keys, args }] of calls.entries()) {
        // The first one loads the script for the others.
        if (at === 0) pipeline.eval(source, keys.length, ...keys, ...args);
        else pipeline.evalsha(sha1, keys.length, ...keys, ...args);
      }
      const replies = (await pipeline.exec()) ?? [];
      return calls.map((_, at): ScriptReply => {
        const [error, reply] = replies[at] ?? [new Error('no reply'), null];
        return error === null
          ? (reply as unknown[])
          : new Fault('STORE_FAILED', { why: error.message }, error);
      });
    },
    close: async () => undefined,
  };
}
