/**
 * What each client address has under way in this worker: requests, and body bytes held for them. One address
 * must not use up what all share. An entry lives as long as a request of its address does.
 */
import type { Decision } from '../core/decision.js';

/** Body bytes that all requests of this worker hold, and how often there was no room for more. */
export type HeldBytes = { now: number; refused: number; refusedAddress: number };

/** What was refused for the sake of all, since the worker began. */
export type GateCounts = { addressRefused: number; queueTimeouts: number };

/** What an address is told that has more under way at once than it may. */
export const CROWDING: Decision = {
  action: 'limit',
  status: 429,
  reason: 'one address has too many requests under way at once (`caps.perAddress`)',
  ruleIds: [],
  wouldChange: 'fewer requests at once',
};

export type Client = { readonly key: string; requests: number; heldBytes: number };

export type Clients = Readonly<{
  /** Counts a request of the address `key`, until `leave`. */
  enter(key: string): Client;
  leave(client: Client): void;
  size(): number;
}>;

export function createClients(): Clients {
  const clients = new Map<string, Client>();
  return {
    enter(key) {
      let client = clients.get(key);
      if (client === undefined) {
        client = { key, requests: 0, heldBytes: 0 };
        clients.set(key, client);
      }
      client.requests++;
      return client;
    },
    leave(client) {
      if (--client.requests === 0) clients.delete(client.key);
    },
    size: () => clients.size,
  };
}

export type HoldingCaps = Readonly<{ heldTotal: number; heldPerAddress: number }>;

/** The body bytes held for one request. */
export type Holding = Readonly<{
  /** Counts further bytes; says whose cap is now passed, if any. */
  add(bytes: number, caps: HoldingCaps): 'total' | 'address' | undefined;
  /** Gives back all that it has counted. May be called again. */
  release(): void;
}>;

export function createHolding(held: HeldBytes, client: Client): Holding {
  let mine = 0;
  return {
    add(bytes, caps) {
      mine += bytes;
      held.now += bytes;
      client.heldBytes += bytes;
      if (client.heldBytes > caps.heldPerAddress) {
        held.refusedAddress++;
        return 'address';
      }
      if (held.now <= caps.heldTotal) return undefined;
      held.refused++;
      return 'total';
    },
    release() {
      held.now -= mine;
      client.heldBytes -= mine;
      mine = 0;
    },
  };
}
