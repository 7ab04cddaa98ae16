/**
 * Limits on a real Redis that it starts itself: checks a second against rate-limiter-flexible in the same run
 * on the same server, latency, operations with and without the hot-key cache, memory for many identities.
 */
import { readFileSync } from 'node:fs';
import type { Redis } from 'ioredis';
import { RateLimiterRedis } from 'rate-limiter-flexible';
import { steadyClock } from '../src/core/clock.js';
import type { AlgorithmName, Check, CounterStore } from '../src/limits/limiter-contract.js';
import { algorithms } from '../src/limits/algorithms/index.js';
import { hotKeyCache } from '../src/limits/stores/hot-key-cache.js';
import { redisStore } from '../src/limits/stores/redis.js';
import { connectRedis, type RedisClient } from '../src/redis/client.js';
import { redisSection } from '../src/redis/config.js';
import { loadCheckScript } from '../src/redis/scripts.js';
import { redisSettings } from '../src/redis/settings.js';
import { startRedis, type RedisServer } from '../test/support/redis.js';

const ROUNDS = Number(process.env.ROUNDS ?? 7);
const REQUESTS = 20_000;
const TOGETHER = 64;
const ADDRESSES = 5_000;
const IDENTITIES = 180_000;
const NEVER_REACHED = 1_000_000;

type Contestant = Readonly<{ name: string; ask: (request: number) => Promise<unknown> }>;

const median = (values: readonly number[]): number =>
  [...values].sort((a, b) => a - b)[Math.floor(values.length / 2)] ?? NaN;
const quantile = (values: readonly number[], share: number): number =>
  [...values].sort((a, b) => a - b)[Math.min(values.length - 1, Math.floor(values.length * share))] ?? NaN;

function check(key: string, algorithm: AlgorithmName, limit = NEVER_REACHED): Check {
  return { key, algorithm, limit, windowMs: 60_000, burst: limit, cost: 1 };
}

/** Three limits, as of one address: a wide one, a narrow one and one of its own for the endpoint. */
function threeOf(request: number, algorithm: AlgorithmName): Check[] {
  const tag = `rl:ip:{10.0.${request % ADDRESSES}}`;
  return ['ingress', 'api', 'endpoint'].map((policy) => check(`${tag}:${policy}/${algorithm}`, algorithm));
}

function ours(name: string, store: CounterStore, algorithm: AlgorithmName): Contestant {
  return { name, ask: async (request) => store.checkAll(threeOf(request, algorithm)) };
}

function theirs(client: Redis): Contestant {
  const limiters = ['ingress', 'api', 'endpoint'].map(
    (keyPrefix) =>
      new RateLimiterRedis({ storeClient: client, keyPrefix, points: NEVER_REACHED, duration: 60 }),
  );
  return {
    name: 'rate-limiter-flexible, three fixed windows',
    ask: async (request) => {
      const key = `10.0.${request % ADDRESSES}`;
      await Promise.all(limiters.map((limiter) => limiter.consume(key)));
    },
  };
}

/** `TOGETHER` requests under way at once; answers milliseconds for all of them. */
async function timeOf({ ask }: Contestant): Promise<number> {
  const startedMs = performance.now();
  let next = 0;
  const lane = async (): Promise<void> => {
    while (next < REQUESTS) await ask(next++);
  };
  await Promise.all(Array.from({ length: TOGETHER }, lane));
  return performance.now() - startedMs;
}

/** User and system time of the server so far, in µs (Linux; 100 ticks a second). */
function serverCpuUs(server: RedisServer): number {
  const stat = readFileSync(`/proc/${server.process.pid}/stat`, 'utf8');
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
  return (Number(fields[11]) + Number(fields[12])) * 10_000;
}

async function throughput(server: RedisServer, client: RedisClient): Promise<void> {
  const piped = server.client.duplicate({ enableAutoPipelining: true, lazyConnect: true });
  await piped.connect();
  const store = redisStore(client);
  const contestants = [
    theirs(piped),
    ours('Tidegate, three fixed windows', store, 'fixed-window'),
    ours('Tidegate, three sliding counters', store, 'sliding-counter'),
  ];
  const took = contestants.map((): number[] => []);
  const cpu = contestants.map(() => [0, 0]);
  for (let round = 0; round < ROUNDS; round++) {
    for (const [at, contestant] of contestants.entries()) {
      const before = [process.cpuUsage(), serverCpuUs(server)] as const;
      took[at]!.push(await timeOf(contestant));
      const own = process.cpuUsage(before[0]);
      cpu[at]![0]! += (own.user + own.system) / REQUESTS / ROUNDS;
      cpu[at]![1]! += (serverCpuUs(server) - before[1]) / REQUESTS / ROUNDS;
    }
  }
  console.log('\n| three limits a request, 64 at once | requests/s | against it | CPU µs here | in Redis |');
  console.log('|---|---|---|---|---|');
  const base = median(took[0]!);
  contestants.forEach(({ name }, at) => {
    const ms = median(took[at]!);
    const [here, there] = cpu[at]!.map((us) => us.toFixed(1));
    const rate = Math.round((REQUESTS * 1000) / ms);
    console.log(`| ${name} | ${rate} | ${(base / ms).toFixed(2)} | ${here} | ${there} |`);
  });
  piped.disconnect();
}

async function latency(client: RedisClient): Promise<void> {
  const store = redisStore(client);
  const took: number[] = [];
  for (let request = 0; request < 5_000; request++) {
    const startedMs = performance.now();
    await store.checkAll(threeOf(request, 'sliding-counter'));
    took.push(performance.now() - startedMs);
  }
  const [p50, p99] = [quantile(took, 0.5), quantile(took, 0.99)];
  console.log('\n| added by three sliding counters, one request at a time | p50 ms | p99 ms |\n|---|---|---|');
  console.log(`| Redis on the same machine | ${p50.toFixed(3)} | ${p99.toFixed(3)} |`);
}

async function scriptCalls(client: Redis): Promise<number> {
  const text = await client.info('commandstats');
  const calls = [...text.matchAll(/cmdstat_eval(?:sha)?:calls=(\d+)/g)].map(([, count]) => Number(count));
  return calls.reduce((sum, count) => sum + count, 0);
}

/** One hot key for three seconds, with two processes' worth of caches, and what passed above its limit. */
async function hotKeys(server: RedisServer, client: RedisClient): Promise<void> {
  const limit = 600;
  const plain = redisStore(client);
  const options = { clock: steadyClock, peers: () => 2, syncMs: 100, hotAfter: 3, keysMax: 1000 };
  const caches = [0, 1].map(() => hotKeyCache(redisStore(client), { ...options, overshoot: 0.05 }));
  console.log('\n| one hot key, 2 processes, 3 s | requests | Redis calls | requests a call | passed of 600 |');
  console.log('|---|---|---|---|---|');
  for (const [name, stores, key] of [
    ['each request asks', [plain, plain], 'plain'],
    ['hot-key cache', caches, 'cached'],
  ] as const) {
    const before = await scriptCalls(server.client);
    const one = { ...check(`rl:ip:{hot}:${key}/sliding-counter`, 'sliding-counter', limit), cached: true };
    let [requests, passed] = [0, 0];
    const untilMs = performance.now() + 3_000;
    const lane = async (lane: number): Promise<void> => {
      while (performance.now() < untilMs) {
        const [result] = await stores[lane % 2]!.checkAll([one]);
        requests++;
        if (result?.allowed === true) passed++;
        await new Promise((resolve) => setTimeout(resolve, 1));
      }
    };
    await Promise.all(Array.from({ length: 20 }, (_, at) => lane(at)));
    const calls = (await scriptCalls(server.client)) - before;
    console.log(`| ${name} | ${requests} | ${calls} | ${(requests / calls).toFixed(0)} | ${passed} |`);
  }
  await Promise.all(caches.map((cache) => cache.settle()));
}

async function usedBytes(client: Redis): Promise<number> {
  return Number(/used_memory:(\d+)/.exec(await client.info('memory'))?.[1]);
}

async function memory(server: RedisServer, client: RedisClient): Promise<void> {
  const store = redisStore(client);
  console.log(`\n| ${IDENTITIES} identities, one hit each at 600/min | MB in Redis | bytes each |\n|---|---|---|`);
  for (const { name } of algorithms) {
    await server.client.flushall();
    const before = await usedBytes(server.client);
    for (let from = 0; from < IDENTITIES; from += 2_000) {
      const keys = Array.from({ length: 2_000 }, (_, at) => `rl:ip:{10.0.${from + at}}:api/${name}/60000`);
      // An hour's window, so that none is gone before it is measured.
      const asked = keys.map((key) => store.checkAll([{ ...check(key, name, 600), windowMs: 3_600_000 }]));
      await Promise.all(asked);
    }
    const bytes = (await usedBytes(server.client)) - before;
    const each = Math.round(bytes / IDENTITIES);
    console.log(`| ${name} | ${(bytes / 1024 / 1024).toFixed(1)} | ${each} |`);
  }
  await server.client.flushall();
  const full = check('rl:ip:{full}:api/sliding-log/60000', 'sliding-log', 600);
  await store.checkAll([{ ...full, cost: 300, windowMs: 3_600_000 }]);
  for (let hit = 0; hit < 300; hit++) await store.checkAll([{ ...full, windowMs: 3_600_000 }]);
  const bytes = Number(await server.client.memory('USAGE', full.key));
  const all = ((bytes * IDENTITIES) / 1024 / 1024).toFixed(0);
  console.log(`\nA full sliding log of 600 stamps: ${bytes} bytes; ${IDENTITIES} of them, computed: ${all} MB.`);
}

async function main(): Promise<void> {
  const server = await startRedis();
  const config = redisSection.parse({ url: `redis://127.0.0.1:${server.port}`, deadline: '5s' });
  const client = connectRedis(redisSettings(config!, { baseDir: '.' }), loadCheckScript());
  await client.settled(5_000);
  console.log('\n## Limits on Redis');
  await throughput(server, client);
  await latency(client);
  await hotKeys(server, client);
  await memory(server, client);
  await client.close();
  await server.stop();
}

await main();
