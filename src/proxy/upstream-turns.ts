/**
 * Who may use an origin address's connections, and who waits for one. Clients that wait take turns by
 * address, and the part that one may hold shrinks as the connections run out: clients that read slowly, be
 * they one or many, cannot keep the others out.
 */
import type { ProxyConfig } from './config.js';

type Caps = Pick<ProxyConfig['caps'], 'upstreamConnections' | 'upstreamQueue' | 'addressShare'>;

export type TurnQueue = Readonly<{
  /** Takes a connection's turn for a client; false when it has to wait. */
  take(client: string, caps: Caps): boolean;
  /**
   * Waits for a turn, which is then taken already when `go` runs. Undefined when the queue is full, else what
   * leaves the queue again.
   */
  wait(client: string, go: () => void, caps: Caps): (() => void) | undefined;
  /** Gives a turn back: to those that wait and may have one, or to nobody. */
  end(client: string): void;
  busy(): number;
  waiting(): number;
}>;

/** What an ordinary client holds at once. */
const FEW = 8;
/**
 * The last of the connections (an eighth of a share) are for those that hold none, as many before them for
 * those that hold few: percent times eight.
 */
const LAST_PART = 800;

type Waiting = Readonly<{ go: () => void; caps: Caps }>;

export function createTurnQueue(): TurnQueue {
  /** Turns taken, by client. */
  const holders = new Map<string, number>();
  /** In the order in which clients are served next. */
  const queues = new Map<string, Set<Waiting>>();
  let busy = 0;
  let waiting = 0;

  const mayTake = (client: string, caps: Caps): boolean => {
    const max = caps.upstreamConnections;
    if (busy >= max) return false;
    const free = max - busy;
    const mine = holders.get(client) ?? 0;
    if (mine === 0) return true;
    // So that a lone one leaves its share free, and many large ones leave some all the same.
    if (mine * caps.addressShare >= free * (100 - caps.addressShare)) return false;
    const last = Math.floor((max * caps.addressShare) / LAST_PART);
    return free > (mine < FEW ? last : 2 * last);
  };
  const hold = (client: string): void => {
    busy++;
    holders.set(client, (holders.get(client) ?? 0) + 1);
  };
  const leave = (client: string, entry: Waiting): void => {
    const queue = queues.get(client);
    if (queue === undefined || !queue.delete(entry)) return;
    waiting--;
    if (queue.size === 0) queues.delete(client);
  };
  /** Serves one that waits; false when none may take a turn. */
  const serve = (): boolean => {
    for (const [client, queue] of queues) {
      const [first] = queue;
      if (first === undefined || !mayTake(client, first.caps)) continue;
      leave(client, first);
      // Its others wait behind everybody else.
      if (queues.delete(client)) queues.set(client, queue);
      hold(client);
      first.go();
      return true;
    }
    return false;
  };
  return {
    take(client, caps) {
      if (!mayTake(client, caps)) return false;
      hold(client);
      return true;
    },
    wait(client, go, caps) {
      const mine = queues.get(client);
      const mineMax = Math.max(1, Math.floor((caps.upstreamQueue * (100 - caps.addressShare)) / 100));
      if (waiting >= caps.upstreamQueue || (mine?.size ?? 0) >= mineMax) return undefined;
      const entry: Waiting = { go, caps };
      if (mine === undefined) queues.set(client, new Set([entry]));
      else mine.add(entry);
      waiting++;
      return () => leave(client, entry);
    },
    end(client) {
      busy--;
      const left = (holders.get(client) ?? 1) - 1;
      if (left > 0) holders.set(client, left);
      else holders.delete(client);
      while (waiting > 0 && serve());
    },
    busy: () => busy,
    waiting: () => waiting,
  };
}
