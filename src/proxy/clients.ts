/**
 * What each client address has under way in this worker: requests, tunnels, and the bodies held for them. One
 * address must not use up what all share. An entry lives as long as a request of its address does.
 */
import type { Decision } from '../core/decision.js';

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

/** The same for its tunnels. */
export const CROWDING_TUNNELS: Decision = {
  action: 'limit',
  status: 429,
  reason: 'one address has too many WebSocket tunnels at once (`caps.tunnelsPerAddress`)',
  ruleIds: [],
  wouldChange: 'fewer tunnels at once',
};

/** A body that is held: its bytes, and what ends its request. */
export type HeldBody = { bytes: number; readonly sinceMs: number; cut: (() => void) | undefined };

export type Client = {
  readonly key: string;
  requests: number;
  tunnels: number;
  /** Bytes of its small bodies, and of its larger ones. */
  smallBytes: number;
  largeBytes: number;
  readonly bodies: Set<HeldBody>;
};

export type Clients = Readonly<{
  /** Counts a request or a tunnel of the address `key`, until `leave`. */
  enter(key: string, as: 'requests' | 'tunnels'): Client;
  leave(client: Client, as: 'requests' | 'tunnels'): void;
  all(): Iterable<Client>;
  size(): number;
}>;

export function createClients(): Clients {
  const clients = new Map<string, Client>();
  return {
    enter(key, as) {
      let client = clients.get(key);
      if (client === undefined) {
        client = { key, requests: 0, tunnels: 0, smallBytes: 0, largeBytes: 0, bodies: new Set() };
        clients.set(key, client);
      }
      client[as]++;
      return client;
    },
    leave(client, as) {
      client[as]--;
      if (client.requests + client.tunnels === 0) clients.delete(client.key);
    },
    all: () => clients.values(),
    size: () => clients.size,
  };
}
