/**
 * Whether an address is the crawler that its user agent claims to be: published networks, else reverse DNS
 * confirmed forwards (the name of the address ends in the operator's domain and leads back to the address; a
 * name alone is whatever the owner of the address says). Asked only before a ban. Where DNS itself is away
 * the answer is `unknown`; where only this address has no working name, it is `no`, since the name servers of
 * an impostor would otherwise be its shield.
 */
import { Resolver } from 'node:dns/promises';
import { LRUCache } from 'lru-cache';
import { canonicalAddress, createNetworkSet, parseIpv6 } from '../core/address.js';
import type { Clock } from '../core/clock.js';
import { KNOWN_CRAWLERS, type CrawlersConfig } from './crawler-list.js';

export type Verdict = 'yes' | 'no' | 'unknown';

/** The questions to a name server. Each takes a bounded time and rejects with a `code` as node's does. */
export type Names = Readonly<{
  reverse(ip: string): Promise<readonly string[]>;
  addresses(name: string, family: 4 | 6): Promise<readonly string[]>;
  /** Resolves where the name server answers at all. */
  isAnswering(domain: string): Promise<boolean>;
}>;

export type Crawlers = Readonly<{
  /** The words of known crawlers in a user agent, lower case; undefined where there is none. */
  claimOf(userAgent: string): string | undefined;
  /** `no` also for one that claims nothing. Takes at most a few seconds and never rejects. */
  verified(ip: string, userAgent: string): Promise<Verdict>;
  stats(): Readonly<Record<Verdict, number> & { known: number }>;
}>;

export type CrawlerDeps = Readonly<{
  names: Names;
  clock: Clock;
  /** Told each time that nobody can say. */
  onUnknown?: (ip: string, claim: string) => void;
}>;

type Known = Readonly<{
  agent: string;
  domains: readonly string[];
  networks: ReturnType<typeof createNetworkSet>;
}>;

/** How long an answer holds. `broken`: the address alone has no working name, which may pass. */
const HOLD_MS = { yes: 6 * 3_600_000, no: 3_600_000, unknown: 30_000, broken: 60_000 };
const CACHE_MAX = 10_000;
const WAITING_MAX = 500;
const AGENTS_MAX = 4_096;
const NAMES_MAX = 4;
const DEADLINE_MS = 4_000;

type Answer = Readonly<{ verdict: Verdict; untilMs: number }>;

/** `config` adds to those that are known anyway. */
export function createCrawlers(config: CrawlersConfig, deps: CrawlerDeps): Crawlers {
  const { names, clock, onUnknown } = deps;
  const known: readonly Known[] = [...config, ...KNOWN_CRAWLERS].map(({ agent, domains, networks }) => ({
    agent: agent.toLowerCase(),
    domains,
    networks: createNetworkSet(networks),
  }));
  const answers = new LRUCache<string, Answer>({ max: CACHE_MAX });
  const waiting = new Map<string, Promise<Verdict>>();
  const tally: Record<Verdict, number> = { yes: 0, no: 0, unknown: 0 };
  const claimOf = rememberClaims(known);

  async function ask(name: string, ip: string, claimed: readonly Known[]): Promise<Verdict> {
    const found = await withDeadline(judge(names, ip, claimed));
    const verdict = found === 'broken' ? 'no' : found;
    answers.set(name, { verdict, untilMs: clock.nowMs() + HOLD_MS[found] });
    tally[verdict] += 1;
    if (verdict === 'unknown') onUnknown?.(ip, claimed.map(({ agent }) => agent).join(' '));
    return verdict;
  }

  return {
    claimOf,
    stats: () => ({ ...tally, known: answers.size }),
    async verified(ip, userAgent) {
      const claim = claimOf(userAgent);
      if (claim === undefined) return 'no';
      const claimed = known.filter(({ agent }) => claim.includes(agent));
      if (claimed.some(({ networks }) => networks.has(ip))) return 'yes';
      const name = `${ip} ${claim}`;
      const answer = answers.get(name);
      if (answer !== undefined && answer.untilMs > clock.nowMs()) return answer.verdict;
      const running = waiting.get(name);
      if (running !== undefined) return running;
      if (waiting.size >= WAITING_MAX) return 'unknown';
      const asked = ask(name, ip, claimed).finally(() => waiting.delete(name));
      waiting.set(name, asked);
      return asked;
    },
  };
}

/** Agents are few and come with every request. */
function rememberClaims(known: readonly Known[]): Crawlers['claimOf'] {
  let claims = new Map<string, string | undefined>();
  return (userAgent) => {
    if (claims.has(userAgent)) return claims.get(userAgent);
    const text = userAgent.toLowerCase();
    const words = known.map(({ agent }) => agent).filter((agent) => text.includes(agent));
    const claim = words.length === 0 ? undefined : words.join(' ');
    if (claims.size >= AGENTS_MAX) claims = new Map();
    claims.set(userAgent, claim);
    return claim;
  };
}

async function judge(names: Names, ip: string, claimed: readonly Known[]): Promise<Verdict | 'broken'> {
  const domains = claimed.flatMap((one) => one.domains);
  const family = ip.includes(':') ? 6 : 4;
  if (domains.length === 0) return 'no';
  try {
    const found = (await names.reverse(ip)).map(plainName);
    const theirs = found.filter((name) => domains.some((domain) => isWithin(name, domain)));
    for (const name of theirs.slice(0, NAMES_MAX)) {
      const addresses = await names.addresses(name, family);
      if (addresses.some((address) => canonicalAddress(address) === ip)) return 'yes';
    }
    return 'no';
  } catch (error) {
    if (isAbsent(error)) return 'no';
    const isAnswering = await names.isAnswering(domains[0] ?? '').catch(() => false);
    return isAnswering ? 'broken' : 'unknown';
  }
}

const plainName = (name: string): string => name.toLowerCase().replace(/\.$/, '');

const isWithin = (name: string, domain: string): boolean => name === domain || name.endsWith(`.${domain}`);

/** The name server answered that there is no such name or record. */
function isAbsent(error: unknown): boolean {
  const code = error instanceof Error && 'code' in error ? error.code : undefined;
  return code === 'ENOTFOUND' || code === 'ENODATA';
}

async function withDeadline<T>(work: Promise<T>): Promise<T | 'unknown'> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<'unknown'>((resolve) => {
    timer = setTimeout(() => resolve('unknown'), DEADLINE_MS);
  });
  try {
    return await Promise.race([work, late]);
  } finally {
    clearTimeout(timer);
  }
}

const QUERY_MS = 800;
const TRIES = 2;

/** `servers`: as in the config, `address` or `address:port`; none: those of the machine. `queryMs`: a first try. */
export function createNames(servers: readonly string[], queryMs = QUERY_MS): Names {
  const resolver = new Resolver({ timeout: queryMs, tries: TRIES });
  if (servers.length > 0) resolver.setServers(servers);
  return {
    // `resolver.reverse` says ENOTFOUND for every failure.
    reverse: (ip) => resolver.resolvePtr(reverseName(ip)),
    addresses: (name, family) => (family === 4 ? resolver.resolve4(name) : resolver.resolve6(name)),
    isAnswering: (domain) =>
      resolver.resolve4(domain).then(
        () => true,
        (error: unknown) => isAbsent(error),
      ),
  };
}

/** `4.3.2.1.in-addr.arpa` (RFC 1035 section 3.5), or the nibbles under `ip6.arpa` (RFC 3596 section 2.5). */
function reverseName(ip: string): string {
  const groups = new Uint16Array(8);
  if (!parseIpv6(ip, groups)) return `${ip.split('.').reverse().join('.')}.in-addr.arpa`;
  const nibbles = Array.from(groups, (group) => group.toString(16).padStart(4, '0')).join('');
  return `${[...nibbles].reverse().join('.')}.ip6.arpa`;
}
