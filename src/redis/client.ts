/**
 * A connection to one Redis, to a master that Sentinels name, or to a Cluster. Nothing waits for a connection
 * to come, and nothing that was sent is sent again, save after NOSCRIPT, MOVED and ASK, which tell that it
 * did not run. A silent connection is dropped after a second and made anew, with a jittered back-off.
 */
import { Cluster, Redis } from 'ioredis';
import { Fault } from '../core/errors.js';
import type { ScriptCall, ScriptExecutor, ScriptReply } from './executor.js';
import { isNoScript, isReadOnly, redisFault } from './faults.js';
import type { Script } from './scripts.js';
import type { RedisSettings } from './settings.js';

export type RedisStats = Readonly<{
  connected: boolean;
  /** Calls that Redis has not answered. */
  inFlight: number;
  /** Connections made, the first included. */
  connects: number;
  /** Times the script had to be loaded while it was needed. */
  scriptLoads: number;
}>;

export type RedisClient = ScriptExecutor &
  Readonly<{
    /** Runs a small script of its own. Rejects with a Fault. */
    evaluate(source: string, call: ScriptCall): Promise<unknown>;
    /** Resolves when connected, when the first attempt failed, or after `ms`. */
    settled(ms: number): Promise<void>;
    stats(): RedisStats;
  }>;

type Line = Redis | Cluster;

const REVIVE_MS = 500;
const REFRESH_EVERY_MS = 250;

/** Begins to connect at once. */
export function connectRedis(settings: RedisSettings, script: Script): RedisClient {
  const { address } = settings;
  const counts = { inFlight: 0, connects: 0, scriptLoads: 0 };
  let lastError: unknown;
  let wrongDatabase: unknown;
  let closed = false;
  let revive: NodeJS.Timeout | undefined;
  const line = open(settings);
  const loader = scriptLoader(line, script, counts);

  line.on('error', (error: unknown) => (lastError = error));
  line.on('ready', () => {
    lastError = undefined;
    counts.connects++;
    void loader.load();
    void proveDatabase();
  });
  // The client gives up by itself in some corners; the gate never does.
  line.on('end', () => {
    if (closed) return;
    revive = setTimeout(() => void line.connect().catch(() => undefined), REVIVE_MS).unref();
  });
  if (line instanceof Cluster) followNodes(line, loader, (error) => (lastError = error));
  line.connect().catch((error: unknown) => (lastError ??= error));

  /** The client goes on in database 0 where it may not or cannot select another; the gate must not. */
  async function proveDatabase(): Promise<void> {
    const { db = 0 } = settings.options;
    if (db === 0 || line instanceof Cluster) return;
    wrongDatabase = new Error(`database ${db} is not selected yet`);
    await line.select(db).then(
      () => (wrongDatabase = undefined),
      (error: unknown) => (wrongDatabase = error),
    );
  }

  function refusal(): Fault | undefined {
    if (closed) return new Fault('STORE_CLOSED');
    if (wrongDatabase !== undefined) return redisFault(wrongDatabase, address);
    if (line.status === 'ready') return undefined;
    return redisFault(lastError ?? new Error('not connected yet'), address);
  }

  async function counted<T>(call: Promise<T>): Promise<T> {
    counts.inFlight++;
    try {
      return await call;
    } finally {
      counts.inFlight--;
    }
  }

  async function run(call: ScriptCall): Promise<ScriptReply> {
    const fault = refusal();
    if (fault !== undefined) return fault;
    try {
      return asReply(await counted(loader.run(call)));
    } catch (error) {
      return closed ? new Fault('STORE_CLOSED') : redisFault(error, address);
    }
  }

  return {
    cluster: line instanceof Cluster,
    evalBatch: (calls) => Promise.all(calls.map(run)),
    async evaluate(source, { keys, args }) {
      const fault = refusal();
      if (fault !== undefined) throw fault;
      try {
        return await counted(line.eval(source, keys.length, ...keys, ...args));
      } catch (error) {
        throw redisFault(error, address);
      }
    },
    settled: (ms) => settled(line, ms),
    stats: () => ({ ...counts, connected: line.status === 'ready' }),
    async close() {
      if (closed) return;
      closed = true;
      clearTimeout(revive);
      line.disconnect();
    },
  };
}

function open({ options, nodes, clusterOptions }: RedisSettings): Line {
  if (nodes !== undefined) return new Cluster([...nodes], clusterOptions);
  // Many calls may be told at once that this is a replica; one new connection is enough.
  let leaving = false;
  const redis = new Redis({
    ...options,
    reconnectOnError: (error) => {
      if (leaving || !isReadOnly(error)) return false;
      return (leaving = true);
    },
  });
  redis.on('close', () => (leaving = false));
  return redis;
}

type ScriptLoader = Readonly<{
  /** Loads the script wherever it may be needed, once for all who ask meanwhile. Never rejects. */
  load(): Promise<void>;
  loadAt(node: Redis): void;
  run(call: ScriptCall): Promise<unknown>;
}>;

function scriptLoader(line: Line, { source, sha1 }: Script, counts: { scriptLoads: number }): ScriptLoader {
  let loading: Promise<void> | undefined;
  const everywhere = async (): Promise<void> => {
    const nodes = line instanceof Cluster ? line.nodes('master') : [line];
    await Promise.allSettled(nodes.map((node) => node.script('LOAD', source)));
    loading = undefined;
  };
  const load = (): Promise<void> => (loading ??= everywhere());
  const send = ({ keys, args }: ScriptCall): Promise<unknown> =>
    line.evalsha(sha1, keys.length, ...keys, ...args);
  return {
    load,
    loadAt: (node) => void node.script('LOAD', source).catch(() => undefined),
    async run(call) {
      try {
        return await send(call);
      } catch (error) {
        if (!isNoScript(error)) throw error;
      }
      if (loading === undefined) counts.scriptLoads++;
      await load();
      try {
        return await send(call);
      } catch (error) {
        if (!isNoScript(error)) throw error;
      }
      // Flushed again, or a node that was not known a moment ago: the text itself cannot be missing.
      return line.eval(source, call.keys.length, ...call.keys, ...call.args);
    },
  };
}

/** Nodes are connected and know the script before the first call; trouble makes us ask anew who owns what. */
function followNodes(cluster: Cluster, loader: ScriptLoader, onError: (error: unknown) => void): void {
  let refreshedMs = -Infinity;
  const refresh = (): void => {
    if (cluster.status !== 'ready' || performance.now() - refreshedMs < REFRESH_EVERY_MS) return;
    refreshedMs = performance.now();
    cluster.refreshSlotsCache();
  };
  cluster.on('+node', (node: Redis) => {
    loader.loadAt(node);
    node.on('ready', () => loader.loadAt(node));
    node.on('close', refresh);
  });
  cluster.on('-node', refresh);
  cluster.on('node error', (error: unknown) => {
    onError(error);
    refresh();
  });
}

function asReply(value: unknown): readonly unknown[] {
  return Array.isArray(value) ? (value as unknown[]) : [value];
}

function settled(line: Line, ms: number): Promise<void> {
  if (line.status === 'ready') return Promise.resolve();
  return new Promise((resolve) => {
    const done = (): void => {
      clearTimeout(timer);
      for (const event of EVENTS) line.off(event, done);
      resolve();
    };
    const timer = setTimeout(done, ms);
    for (const event of EVENTS) line.on(event, done);
  });
}

const EVENTS = ['ready', 'error', 'end', 'close'] as const;
