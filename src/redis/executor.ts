/**
 * What the counter store asks of a connection to Redis: run the counting script for some groups of keys in
 * one pipelined round trip. Connections, deadlines, breaker and NOSCRIPT recovery are behind it. The
 * contract, not the work.
 */
import type { Fault } from '../core/errors.js';

/** One run of the script. On Cluster all `keys` lie in one slot (the store groups them by hash tag). */
export type ScriptCall = Readonly<{
  keys: readonly string[];
  /** After the keys, as the head of lua/check-all.lua says. */
  args: readonly (string | number)[];
}>;

/** What the script returned, as Redis gave it; a Fault where this call failed. Never a consent by default. */
export type ScriptReply = readonly unknown[] | Fault;

export type ScriptExecutor = Readonly<{
  /** True where keys of different slots may live on different nodes. */
  cluster: boolean;
  /**
   * One reply per call, in order. Calls of one turn of the event loop should travel in one pipeline, also
   * those of different `evalBatch`es. A call that was sent is never sent again, except after NOSCRIPT or
   * MOVED/ASK, which tell that it did not run. Within a bounded time each reply is there or a Fault
   * (STORE_TIMEOUT, STORE_FAILED, STORE_CLOSED, STORE_OVERLOADED); the promise itself does not reject.
   */
  evalBatch(calls: readonly ScriptCall[]): Promise<readonly ScriptReply[]>;
  close(): Promise<void>;
}>;
