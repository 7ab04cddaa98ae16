/**
 * Origins of a site: names resolved again and again, one undici Pool an address, round robin over the healthy
 * ones, passive health with doubling back-off. A name's addresses that are gone from DNS get no new request
 * and their pools close once idle; when the resolver fails, the last good addresses stay, over reloads too.
 */
import { isIP } from 'node:net';
import type { ProxyConfig, SiteConfig } from './config.js';
import { Pool } from './pool.js';
import type { Resolver } from './resolver.js';
import { createTurnQueue, type TurnQueue } from './upstream-turns.js';

export type Address = {
  readonly label: string;
  readonly pool: Pool;
  readonly origin: Origin;
  readonly ip: string;
  failures: number;
  asideUntilMs: number;
  /**
   * Who uses its connections. Never more than `caps.upstreamConnections`: undici's own queue cannot forget a
   * client that left.
   */
  readonly turns: TurnQueue;
  /** Gone from DNS: its pool closes with the last turn. */
  retired: boolean;
};

/** Gives a client's turn back. */
export function endTurn(address: Address, client: string): void {
  address.turns.end(client);
  if (address.retired && address.turns.busy() === 0) closePool(address);
}

function closePool({ pool }: Address): void {
  void pool.close().catch(() => pool.destroy());
}

export type Origin = Readonly<{ url: URL; hostHeader: string; port: number; tls: boolean }>;

export type UpstreamSet = {
  start(): Promise<void>;
  /** The next address for this site; those in `tried` only if there is no other. Undefined: none known. */
  pick(site: string, tried: readonly Address[]): Address | undefined;
  succeeded(address: Address): void;
  failed(address: Address): void;
  addresses(site: string): readonly Address[];
  close(): Promise<void>;
};

type Settings = Pick<ProxyConfig, 'timeouts' | 'caps' | 'dns' | 'health'> & { sites: readonly SiteConfig[] };
type Deps = Readonly<{
  resolver: Resolver;
  nowMs: () => number;
  onProblem: (message: string) => void;
  /** The last good answer for each name, kept by the caller from one config to the next. */
  lastGood?: Map<string, readonly string[]>;
}>;
type Member = { origin: Origin; addresses: Map<string, Address> };
type Group = { members: Member[]; list: Address[]; next: number };

const BACKOFF_MAX_MS = 60_000;
const ADDRESSES_MAX = 64;

export function createUpstreams(settings: Settings, deps: Deps): UpstreamSet {
  const groups = new Map<string, Group>();
  for (const site of settings.sites) {
    const members = site.upstreams.map((text) => ({
      origin: originOf(text),
      addresses: new Map<string, Address>(),
    }));
    groups.set(site.name, { members, list: [], next: 0 });
  }
  const addressesOf = createNames(deps);
  let timer: NodeJS.Timeout | undefined;
  let closed = false;

  const refresh = async (member: Member): Promise<void> => {
    const ips = await addressesOf(member.origin.url.hostname.replace(/^\[|\]$/g, ''));
    if (ips.length === 0 || closed) return;
    applyAddresses(member, ips.slice(0, ADDRESSES_MAX), settings);
  };
  const refreshAll = async (): Promise<void> => {
    await Promise.all([...groups.values()].flatMap((group) => group.members.map(refresh)));
    for (const group of groups.values())
      group.list = group.members.flatMap((member) => [...member.addresses.values()]);
  };
  const schedule = (): void => {
    if (closed) return;
    timer = setTimeout(() => void refreshAll().finally(schedule), settings.dns.refresh);
    timer.unref();
  };

  return {
    async start() {
      await refreshAll();
      if (hasNames(groups)) schedule();
    },
    pick: (site, tried) => pick(groups.get(site), tried, deps.nowMs()),
    succeeded(address) {
      if (address.failures !== 0) address.failures = 0;
    },
    failed(address) {
      address.failures++;
      const over = address.failures - settings.health.failures;
      if (over < 0) return;
      const waitMs = Math.min(BACKOFF_MAX_MS, settings.health.backoff * 2 ** Math.min(over, 16));
      address.asideUntilMs = deps.nowMs() + waitMs;
    },
    addresses: (site) => groups.get(site)?.list ?? [],
    close() {
      closed = true;
      clearTimeout(timer);
      // Requests that are still being judged will want these pools; their idle connections end by themselves.
      return Promise.resolve();
    },
  };
}

const NAMES_MAX = 1_000;

/** Looks a name up; where that fails, says so once and answers what was last good (or nothing). */
function createNames({ resolver, onProblem, lastGood = new Map() }: Deps) {
  const failing = new Set<string>();
  return async (name: string): Promise<readonly string[]> => {
    if (isIP(name) > 0) return [name];
    try {
      const ips = await resolver(name);
      failing.delete(name);
      if (ips.length > 0 && (lastGood.has(name) || lastGood.size < NAMES_MAX)) lastGood.set(name, ips);
      return ips;
    } catch (error) {
      const problem = `cannot resolve ${name}: ${(error as Error).message}; its last known addresses stay`;
      if (!failing.has(name)) onProblem(problem);
      failing.add(name);
      return lastGood.get(name) ?? [];
    }
  };
}

function hasNames(groups: ReadonlyMap<string, Group>): boolean {
  const names = [...groups.values()].flatMap((group) =>
    group.members.map((member) => member.origin.url.hostname),
  );
  return names.some((name) => isIP(name.replace(/^\[|\]$/g, '')) === 0);
}

/**
 * Round robin; an address set aside is used only when all are; IPv6 of a name with both only when IPv4 is
 * aside.
 */
function pick(group: Group | undefined, tried: readonly Address[], nowMs: number): Address | undefined {
  if (group === undefined || group.list.length === 0) return undefined;
  const { list } = group;
  if (list.length === 1) return list[0];
  let spare: Address | undefined;
  let second: Address | undefined;
  for (let step = 0; step < list.length; step++) {
    const address = list[(group.next + step) % list.length]!;
    if (tried.includes(address)) continue;
    spare ??= address;
    if (address.asideUntilMs > nowMs) continue;
    if (
      isIP(address.ip) === 6 &&
      list.some((other) => other.origin === address.origin && isIP(other.ip) === 4)
    ) {
      second ??= address;
      continue;
    }
    group.next = (group.next + step + 1) % list.length;
    return address;
  }
  return second ?? spare ?? list[group.next % list.length];
}

function applyAddresses(member: Member, ips: readonly string[], settings: Settings): void {
  const wanted = new Set(ips);
  for (const [ip, address] of member.addresses) {
    if (wanted.has(ip)) continue;
    member.addresses.delete(ip);
    address.retired = true;
    if (address.turns.busy() === 0) closePool(address);
  }
  for (const ip of wanted) {
    if (!member.addresses.has(ip)) member.addresses.set(ip, openAddress(member.origin, ip, settings));
  }
}

function openAddress(origin: Origin, ip: string, settings: Settings): Address {
  const family = isIP(ip) as 4 | 6;
  const literal = family === 6 ? `[${ip}]` : ip;
  const { timeouts, caps } = settings;
  const pool = new Pool(`${origin.tls ? 'https' : 'http'}://${literal}:${origin.port}`, {
    connections: caps.upstreamConnections,
    pipelining: 1,
    keepAliveTimeout: 4_000,
    keepAliveMaxTimeout: 60_000,
    headersTimeout: timeouts.response,
    bodyTimeout: timeouts.responseBody,
    maxHeaderSize: 64 * 1024,
    connect: {
      timeout: timeouts.connect,
      ...(origin.tls ? { servername: isIP(origin.url.hostname) > 0 ? '' : origin.url.hostname } : {}),
    },
  });
  return {
    label: `${literal}:${origin.port}`,
    pool,
    origin,
    ip,
    failures: 0,
    asideUntilMs: 0,
    turns: createTurnQueue(),
    retired: false,
  };
}

function originOf(text: string): Origin {
  const url = new URL(text);
  const tls = url.protocol === 'https:';
  return { url, hostHeader: url.host, port: Number(url.port || (tls ? 443 : 80)), tls };
}
