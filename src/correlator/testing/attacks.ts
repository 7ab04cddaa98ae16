/** Made attacks with their label, for the tests of detectors and of the engine. */
import type { Observation } from '../../core/observation.js';
import { type Agent, type Client, ipv4, openScene, span, type Span } from './scene.js';

const TOOL: Agent = {
  userAgent: 'Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36',
  headers: 'tool',
};

export type Attack = Readonly<{ traffic: Observation[]; attackers: ReadonlySet<string> }>;

const labelled = (traffic: Observation[]): Attack => ({
  traffic,
  attackers: new Set(traffic.map(({ key }) => key)),
});

export type Stuffing = Partial<Span> &
  Readonly<{
    addresses?: number;
    each?: number;
    path?: string;
    status?: number;
    luck?: number;
    v6?: boolean;
  }>;

/**
 * Credential stuffing: each of `addresses` tries `each` logins spread evenly over the span, every one with
 * another user; one in `1/luck` gets in.
 */
export function stuffing(over: Stuffing = {}): Attack {
  const { addresses = 58, each = 5, path = '/login', status = 401, luck = 0, v6 = false } = over;
  const of = span({ lengthMs: 60_000, ...over });
  const scene = openScene('stuffing', of);
  const { dice } = scene;
  for (let at = 0; at < addresses; at++) {
    const ip = v6 ? `2001:db8:${(0xc000 + at).toString(16)}:1::${dice.hex(3)}` : ipv4(45, at);
    const client: Client = { ip, asn: 64_900 + (at % 9), agent: TOOL, site: 'shop' };
    for (let attempt = 0; attempt < each; attempt++) {
      const atMs = of.startMs + ((attempt + dice.next()) / each) * of.lengthMs;
      const good = dice.chance(luck);
      scene.ask({ ...client, user: dice.hex(22) }, atMs, 'page', {
        method: 'POST',
        path,
        status: good ? 302 : status,
      });
    }
  }
  return labelled(scene.sorted());
}

export type Use = Partial<Span> &
  Readonly<{
    addresses?: number;
    /** Requests a minute of one address, of 60 that are allowed. */
    rate?: (index: number, random: number) => number;
    first?: number;
    client?: (index: number, turn: number) => Partial<Client>;
  }>;

/**
 * Many addresses against one limit of 60 a minute: what each asks for is spread over the minute, and what is
 * beyond the limit is refused. By default a scraper that stays at 80 to 95 %.
 */
export function scraping(over: Use = {}): Attack {
  const { addresses = 40, rate = (_, random) => 48 + 9 * random, first = 23, client = () => ({}) } = over;
  const of = span(over);
  const scene = openScene('scraping', of);
  const { dice } = scene;
  const limit = 60;
  for (let at = 0; at < addresses; at++) {
    const perMinute = rate(at, dice.next());
    const base: Client = { ip: ipv4(first, at), asn: 64_910 + (at % 4), agent: TOOL, site: 'shop' };
    for (let minute = 0; minute * 60_000 < of.lengthMs; minute++) {
      const wanted = Math.round(perMinute);
      for (let used = 1; used <= wanted; used++) {
        const near = { policy: 'pages', by: 'ip', used: Math.min(used, limit + 1), limit, windowMs: 60_000 };
        scene.ask(
          { ...base, ...client(at, minute * 1_000 + used) },
          of.startMs + (minute + used / (wanted + 1)) * 60_000,
          'page',
          {
            path: `/p/${1000 + dice.int(9000)}`,
            near: near.used >= 0.6 * limit ? near : undefined,
            ...(used > limit ? { status: 429, upstreamStatus: 0, refusal: 'limit' } : {}),
          },
        );
      }
    }
  }
  return labelled(scene.sorted());
}

export type Rotation = Partial<Span> &
  Readonly<{
    requests?: number;
    /** Requests before it takes the next /64. */
    perNetwork?: number;
    /** Bits of the prefix that it has, from 48 on; its /48 is 2001:db8:bad. */
    prefix?: number;
    client?: (network: number) => Partial<Client>;
    /** Kinds of URL. */
    urls?: readonly string[];
    /** Failed logins instead. */
    login?: boolean;
  }>;

/** One host with an IPv6 prefix: a new /64 every few requests, the same tool, no session kept. */
export function rotation(over: Rotation = {}): Attack {
  const { requests = 1500, perNetwork = 3, prefix = 48, client = () => ({}), urls = ['/p/'] } = over;
  const of = span({ lengthMs: 300_000, ...over });
  const scene = openScene('rotation', of);
  const { dice } = scene;
  const networks = 2 ** (64 - prefix);
  let ip = '';
  let base: Partial<Client> = {};
  for (let at = 0; at < requests; at++) {
    if (at % perNetwork === 0) {
      ip = `2001:db8:bad:${dice.int(networks).toString(16)}:${dice.hex(4)}:${dice.hex(4)}:1:1`;
      base = client(at / perNetwork);
    }
    const asker: Client = { ip, asn: 64_920, agent: TOOL, site: 'shop', ...base };
    const path = `${dice.pick(urls)}${1000 + dice.int(9000)}`;
    const what = over.login === true ? { method: 'POST', path: '/login', status: 401 } : { path };
    scene.ask(asker, of.startMs + ((at + dice.next()) / requests) * of.lengthMs, 'page', what);
  }
  return labelled(scene.sorted());
}

export type Swarm = Partial<Span> &
  Readonly<{
    addresses?: number;
    each?: number;
    client?: (index: number) => Partial<Client>;
    status?: number;
  }>;

/** A botnet with one tool: thousands of households, a few requests of each for the same kind of page. */
export function swarm(over: Swarm = {}): Attack {
  const { addresses = 2500, each = 2, client = () => ({}), status = 200 } = over;
  const of = span(over);
  const scene = openScene('swarm', of);
  const { dice } = scene;
  const agent = { userAgent: 'Mozilla/5.0 (X11; Linux i686) Gecko/20100101 Kraken/9.3', headers: 'kraken' };
  for (let at = 0; at < addresses; at++) {
    const bot: Client = { ip: ipv4(31, at), asn: 64_700 + dice.int(25), agent, site: 'shop', ...client(at) };
    for (let request = 0; request < each; request++) {
      const path = `/p/${1000 + dice.int(9000)}`;
      scene.ask(bot, of.startMs + dice.next() * of.lengthMs, 'page', { path, status });
    }
  }
  return labelled(scene.sorted());
}
