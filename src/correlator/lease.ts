/**
 * Who evaluates for all instances: one of them at a time, by a key in Redis that it renews and that ends by
 * itself. Two may believe so for a moment; that costs work, not effects, since bans are idempotent.
 */
import type { Evaluate } from './state-store.js';

export type Lease = Readonly<{
  /** Begins to ask for it. */
  start(): void;
  isHeld(): boolean;
  /** Gives it back, as far as Redis answers. */
  close(): Promise<void>;
}>;

export type LeaseOptions = Readonly<{
  evaluate: Evaluate;
  group: string;
  /** Different for every instance. */
  holder: string;
  ttlMs?: number;
  everyMs?: number;
  nowMs?: () => number;
}>;

const TTL_MS = 5_000;
const EVERY_MS = 1_000;

/** KEYS lease; ARGV holder, time to live. 1 where it is ours now. */
const TAKE = `
local holder = redis.call('GET', KEYS[1])
if holder and holder ~= ARGV[1] then return 0 end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return 1
`;
const GIVE_BACK = `
if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end
return 0
`;

export function createLease(options: LeaseOptions): Lease {
  const { evaluate, group, holder, ttlMs = TTL_MS, everyMs = EVERY_MS } = options;
  const { nowMs = () => performance.now() } = options;
  const keys = [`cor:{${group}}:leader`];
  let untilMs = -Infinity;
  let timer: NodeJS.Timeout | undefined;
  let closed = false;

  async function renew(): Promise<void> {
    // Counted from before the call: Redis' own count begins later.
    const sinceMs = nowMs();
    const answer = await evaluate(TAKE, { keys, args: [holder, ttlMs] }).catch(() => undefined);
    if (answer === 1) untilMs = sinceMs + ttlMs;
    else if (answer === 0) untilMs = -Infinity;
    if (!closed) timer = setTimeout(() => void renew(), everyMs).unref();
  }
  return {
    start: () => void renew(),
    isHeld: () => !closed && nowMs() < untilMs,
    async close() {
      if (closed) return;
      const held = nowMs() < untilMs;
      closed = true;
      clearTimeout(timer);
      if (held) await evaluate(GIVE_BACK, { keys, args: [holder] }).catch(() => undefined);
    },
  };
}
