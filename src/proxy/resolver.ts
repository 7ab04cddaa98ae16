/** How names of origins become addresses: as the machine does it, or by the DNS servers of the config. */
import { lookup, Resolver as DnsClient } from 'node:dns/promises';
import type { ProxyConfig } from './config.js';

/** The addresses of a name, IPv4 and IPv6; rejects where there are none. */
export type Resolver = (name: string) => Promise<readonly string[]>;

const TIMEOUT_MS = 1_000;
const TRIES = 2;

export function createResolver({ servers }: Pick<ProxyConfig['dns'], 'servers'>): Resolver {
  return servers.length === 0 ? systemResolver : dnsResolver(servers);
}

/** getaddrinfo off the event loop: hosts file, search domains and DNS as the machine has them. */
const systemResolver: Resolver = async (name) => {
  const found = await lookup(name, { all: true });
  return found.map((entry) => entry.address);
};

/** One kind of address is enough: a name with A records only answers AAAA with no data. */
function dnsResolver(servers: readonly string[]): Resolver {
  const client = new DnsClient({ timeout: TIMEOUT_MS, tries: TRIES });
  client.setServers(servers);
  return async (name) => {
    const both = await Promise.allSettled([client.resolve4(name), client.resolve6(name)]);
    const found = both.flatMap((answer) => (answer.status === 'fulfilled' ? answer.value : []));
    const [failed] = both.filter((answer) => answer.status === 'rejected');
    if (found.length === 0 && failed !== undefined) throw failed.reason;
    return found;
  };
}

/** An address with or without a port, as c-ares takes it. */
export function isDnsServer(text: string): boolean {
  try {
    new DnsClient().setServers([text]);
    return true;
  } catch {
    return false;
  }
}
