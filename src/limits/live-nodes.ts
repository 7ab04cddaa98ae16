/**
 * How many gates share the limits: each says every few seconds in a sorted set that it lives, and counts
 * those who did so lately, on the clock of Redis. A number that drops is believed only once it has held for
 * as long as a gate may be silent, so that neither a flush nor an outage makes anybody's share larger.
 */

export type LiveNodes = Readonly<{
  /** How many there are, and the place of this one among them, from 0; Infinity where it is not known. */
  current(): Readonly<{ count: number; rank: number }>;
  /** Resolves after the first beat, whether it was answered or not. */
  first: Promise<void>;
  close(): void;
}>;

/** Runs a script with one key. Rejects where Redis does not answer. */
export type Evaluate = (
  source: string,
  call: Readonly<{ keys: readonly string[]; args: readonly (string | number)[] }>,
) => Promise<unknown>;

type Options = Readonly<{
  /** The same for all workers of one gate, different for every gate. */
  node: string;
  evaluate: Evaluate;
  /** The first beat waits for it; default: it does not wait. */
  ready?: Promise<void>;
  /** So many there are, whatever the set says. */
  fixed?: number;
  everyMs?: number;
  random?: () => number;
  nowMs?: () => number;
}>;

const KEY = 'rl:nodes';
const EVERY_MS = 3_000;
const BEATS_MISSED_MAX = 5;
const NODES_MAX = 1_000;

/** Takes the late out, the caller in, and answers how many there are and how many sort before the caller. */
const BEAT = `
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now - ARGV[2])
redis.call('ZADD', KEYS[1], now, ARGV[1])
redis.call('PEXPIRE', KEYS[1], ARGV[2])
local nodes = redis.call('ZRANGE', KEYS[1], 0, tonumber(ARGV[3]) - 1)
local before = 0
for _, node in ipairs(nodes) do if node < ARGV[1] then before = before + 1 end end
return { #nodes, before }
`;

type Seen = Readonly<{ atMs: number; count: number; rank: number }>;

/** Begins at once; a beat that fails is passed over. */
export function liveNodes(options: Options): LiveNodes {
  const { everyMs = EVERY_MS, random = Math.random, nowMs = () => performance.now() } = options;
  const silentMs = everyMs * BEATS_MISSED_MAX;
  let seen: Seen[] = [];
  let timer: NodeJS.Timeout | undefined;
  let closed = false;

  async function beat(): Promise<void> {
    const args = [options.node, silentMs, NODES_MAX];
    const answer = await options.evaluate(BEAT, { keys: [KEY], args }).catch(() => undefined);
    const [count, rank] = Array.isArray(answer) ? (answer as unknown[]) : [];
    if (typeof count === 'number' && typeof rank === 'number' && count >= 1) keep(count, rank);
    if (closed) return;
    timer = setTimeout(() => void beat(), everyMs * (0.75 + random() / 2)).unref();
  }
  function keep(count: number, rank: number): void {
    const atMs = nowMs();
    // The latest of those that saw the most, and whatever came after it.
    seen = seen.filter((one) => one.count > count && atMs - one.atMs <= silentMs);
    seen.push({ atMs, count, rank });
  }
  return {
    first: (options.ready ?? Promise.resolve()).then(beat),
    current() {
      const { count, rank } = seen[0] ?? { count: 1, rank: options.fixed === undefined ? 0 : Infinity };
      return { count: options.fixed ?? count, rank };
    },
    close() {
      closed = true;
      clearTimeout(timer);
    },
  };
}
