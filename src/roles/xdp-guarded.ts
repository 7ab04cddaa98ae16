/**
 * Whom the kernel must spare, gathered from the whole config: the allowlist, operators, proxies in front,
 * this machine, and the servers behind whose answers come in on the same interface. Read anew each round.
 */
import type { LookupAddress } from 'node:dns';
import { lookup } from 'node:dns/promises';
import { networkInterfaces } from 'node:os';
import { resolve } from 'node:path';
import type { Config } from '../config/schema.js';
import { describeFault } from '../core/errors.js';
import { canonicalAddress, formatNetwork, parseNetwork } from '../core/address.js';
import { refuseImplausible } from '../reputation/plausible.js';
import { readAllowed } from '../reputation/sources/allowlist.js';
import type { AgentLog, Guarded } from '../xdp/agent.js';
import { readRouters } from './xdp-routers.js';

/**
 * Never a client's address on a wire: unspecified, loopback, link-local, multicast and reserved (RFC 6890).
 */
const SPECIAL = [
  '0.0.0.0/8',
  '127.0.0.0/8',
  '169.254.0.0/16',
  '224.0.0.0/3',
  '::/127',
  'fe80::/10',
  'ff00::/8',
];
const LOOKUP_MS = 2_000;

type Mutable<T> = T extends readonly (infer Item)[] ? Item[] : never;
type Find = (host: string) => Promise<readonly string[]>;

export type GuardedDeps = Readonly<{
  log: AgentLog;
  /** Addresses of a host name; asked of the system where left out. */
  find?: Find;
  /** Gateways and resolvers of this machine; of the system where left out. */
  routers?: () => Promise<Guarded>;
}>;

/** The reader rejects (FEED_*) where the allowlist could not be read so far. */
export function createGuardedReader(
  config: Config,
  { log, find = findHost, routers = readRouters }: GuardedDeps,
): () => Promise<Guarded> {
  const fixed = fixedGuarded(config);
  const allowlisted = createAllowlistReader(config, log);
  const hosts = config.xdp?.neighbours === false ? [] : neighboursOf(config);
  const addresses = new Map<string, readonly string[]>();
  const lost = new Set<string>();

  const follow = async (host: string): Promise<void> => {
    try {
      addresses.set(host, await find(host));
      lost.delete(host);
    } catch (error) {
      if (lost.has(host)) return;
      lost.add(host);
      const known = addresses.get(host) ?? [];
      log('warn', 'cannot find the addresses of a server behind; those known before stay spared', {
        host,
        known,
        why: error instanceof Error ? error.message : String(error),
      });
    }
  };
  return async () => {
    const listed = await allowlisted();
    await Promise.all(hosts.map(follow));
    const behind = [...addresses.values()]
      .flat()
      .map((net) => ({ net, why: 'neighbour', spared: true }) as const);
    return [...fixed, ...listed, ...behind, ...(await routers()), ...ownAddresses()];
  };
}

function fixedGuarded(config: Config): Guarded {
  const of = (nets: readonly string[], why: Guarded[number]['why'], spared: boolean): Guarded =>
    // A proxy list of everybody means that nobody is special.
    nets
      .filter((net) => parseNetwork(net)?.prefix !== 0)
      .map((net) => ({ net: canonical(net), why, spared }));
  return [
    ...of(SPECIAL, 'special', false),
    ...of(config.reputation.ownAddresses, 'own', false),
    ...of(config.xdp?.management ?? [], 'management', false),
    ...of(config.trustedProxies, 'trusted', true),
  ];
}

const canonical = (net: string): string => {
  const network = parseNetwork(net);
  return network === undefined ? net : formatNetwork(network);
};

/** Once read, the last good version stays where a new one cannot be read or has suddenly become empty. */
function createAllowlistReader({ reputation, baseDir }: Config, log: AgentLog): () => Promise<Guarded> {
  if (reputation.allowlist === undefined) return async () => [];
  const path = resolve(baseDir, reputation.allowlist);
  let last: Guarded | undefined;
  let told = '';
  const tell = (why: string, message: string): void => {
    if (why !== told && why !== '') log('warn', message, { from: path, why });
    told = why;
  };
  return async () => {
    try {
      const { list, warning } = await readAllowlist(path, last?.length ?? 0);
      tell(warning ?? '', 'the allowlist was read, with doubts');
      return (last = list);
    } catch (error) {
      if (last === undefined) throw error;
      tell(describeFault(error), 'cannot take the new allowlist; the last good one stays in force');
      return last;
    }
  };
}

async function readAllowlist(path: string, before: number) {
  const list: Mutable<Guarded> = [];
  const file = { feed: 'allowlist', path, from: path } as const;
  const version = await readAllowed(file, (network) => {
    list.push({ net: formatNetwork(network), why: 'allowlist', spared: true });
  });
  refuseImplausible(file, before, version);
  return { list, warning: version.warning };
}

function ownAddresses(): Guarded {
  const all = Object.values(networkInterfaces()).flatMap((list) => list ?? []);
  return all.flatMap(({ address }) => {
    const net = canonicalAddress(address);
    return net === undefined ? [] : [{ net, why: 'own', spared: false } as const];
  });
}

/** Hosts of the origins, Redis and Kafka, each once. */
export function neighboursOf(config: Config): string[] {
  const { redis, kafka, sites } = config;
  const urls = [
    ...sites.flatMap(({ upstreams }) => upstreams),
    ...(redis?.url === undefined ? [] : [redis.url]),
  ];
  const pairs = [...(redis?.sentinel?.addresses ?? []), ...(redis?.cluster ?? []), ...(kafka?.brokers ?? [])];
  const hosts = [
    ...urls.map((url) => new URL(url).hostname),
    ...pairs.map((pair) => pair.slice(0, Math.max(0, pair.lastIndexOf(':')))),
  ];
  return [...new Set(hosts.map((host) => host.replace(/^\[|\]$/g, '')).filter((host) => host !== ''))];
}

async function findHost(host: string): Promise<readonly string[]> {
  const literal = canonicalAddress(host);
  if (literal !== undefined) return [literal];
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new Error(`no answer within ${LOOKUP_MS} ms`)), LOOKUP_MS);
  });
  try {
    const found: readonly LookupAddress[] = await Promise.race([lookup(host, { all: true }), late]);
    return found.flatMap(({ address }) => canonicalAddress(address) ?? []);
  } finally {
    clearTimeout(timer);
  }
}
