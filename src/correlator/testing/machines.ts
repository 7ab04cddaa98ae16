/**
 * Honest machines that look like bots because they are: the monitoring probe, the partner's nightly batch,
 * the search engine's crawler. All must stay unbanned.
 */
import type { Observation } from '../../core/observation.js';
import { type Client, ipv4, openScene, span, type Span } from './scene.js';

/**
 * Three locations of a monitoring service: `/health` every 10 s, the front page every 30 s, and each minute a
 * login with a wrong password that must be answered with 401. To the millisecond, with an agent of its own.
 */
export function probe(over: Partial<Span> = {}, locations = 3): Observation[] {
  const of = span(over);
  const scene = openScene('probe', of);
  const { dice } = scene;
  for (let at = 0; at < locations; at++) {
    const client: Client = {
      ip: `192.0.2.${10 + at}`,
      asn: 64_530 + at,
      agent: { userAgent: 'UptimeWatch/2.3 (+https://uptime.example/bot)', headers: 'uptime' },
      site: 'shop',
    };
    const phaseMs = at * 3_333;
    const late = (): number => dice.between(0, 25);
    const asks = [
      [10_000, { path: '/health' }],
      [30_000, { path: '/' }],
      [60_000, { method: 'POST', path: '/login', status: 401 }],
    ] as const;
    for (const [everyMs, over] of asks) {
      for (let atMs = phaseMs; atMs < of.lengthMs; atMs += everyMs) {
        const who = everyMs === 60_000 ? { ...client, user: 'probe-user' } : client;
        scene.ask(who, of.startMs + atMs + late(), 'call', over);
      }
    }
  }
  return scene.sorted();
}

/**
 * A partner fetches the whole catalogue: one to three addresses, one key, nine tenths of the 600 requests a
 * minute, even pace, for as long as it lasts. Some products are gone (404).
 */
export function batch(over: Partial<Span> = {}, addresses = 3): Observation[] {
  const of = span(over);
  const scene = openScene('batch', of);
  const { dice } = scene;
  const perMinute = 540;
  const stepMs = 60_000 / perMinute;
  const apiKey = dice.hex(22);
  const agent = { userAgent: 'acme-erp-sync/4.1 python-requests/2.32.5', headers: 'requests' };
  let minute = -1;
  let used = 0;
  for (let at = 0; at * stepMs < of.lengthMs; at++) {
    const timeMs = of.startMs + at * stepMs + dice.between(0, 8);
    const inMinute = Math.floor(timeMs / 60_000);
    used = inMinute === minute ? used + 1 : 1;
    minute = inMinute;
    const client = { ip: `192.0.2.${100 + (at % addresses)}`, asn: 64_540, agent, site: 'api', apiKey };
    const near = { policy: 'api', by: 'apiKey', used, limit: 600, windowMs: 60_000 };
    scene.ask(client, timeMs, 'call', {
      path: `/api/products/${20_000 + at}`,
      status: dice.chance(0.01) ? 404 : 200,
      near: used >= 360 ? near : undefined,
    });
  }
  return scene.sorted();
}

/** Some hundred addresses of one ASN, each a page every while, no cookies kept, never a login. */
export function crawler(over: Partial<Span> = {}, addresses = 150): Observation[] {
  const of = span(over);
  const scene = openScene('crawler', of);
  const { dice } = scene;
  const agent = {
    userAgent: 'Mozilla/5.0 (compatible; ExampleBot/2.1; +https://search.example/bot.html)',
    headers: 'bot',
  };
  for (let at = 0; at < addresses; at++) {
    const ip = `66.249.${64 + (at >> 7)}.${1 + (at & 127)}`;
    const client: Client = { ip, asn: 64_550, agent, site: dice.pick(['shop', 'blog']) };
    const everyMs = dice.between(15_000, 40_000);
    for (let atMs = dice.next() * everyMs; atMs < of.lengthMs; atMs += everyMs + dice.between(-500, 500)) {
      const path = dice.weighted([
        ['/robots.txt', 5],
        [`/p/${1000 + dice.int(4000)}`, 85],
        [`/c/${dice.int(60)}`, 10],
      ]);
      scene.ask(client, of.startMs + atMs, 'page', { path, status: dice.chance(0.04) ? 404 : 200 });
    }
  }
  return scene.sorted();
}

const INTEGRATIONS = ['okhttp/4.12.0', 'Go-http-client/2.0', 'axios/1.12.2', 'Java-http-client/21'] as const;

/**
 * Integrations of customers: each a key and a host, and its own appetite. Few use much of what they may: how
 * many come how near to the limit falls off evenly.
 */
export function apiClients(over: Partial<Span> = {}, clients = 120): Observation[] {
  const of = span(over);
  const scene = openScene('api', of);
  const { dice } = scene;
  for (let at = 0; at < clients; at++) {
    const userAgent = dice.pick(INTEGRATIONS);
    const agent = { userAgent, headers: userAgent };
    const client = { ip: ipv4(52, at), asn: 64_560 + (at % 5), agent, site: 'api', apiKey: dice.hex(22) };
    const perMinute = Math.min(560, dice.logNormal(15, 1.3));
    let minute = -1;
    let used = 0;
    for (let atMs = dice.exponential(60_000 / perMinute); atMs < of.lengthMs;) {
      const inMinute = Math.floor((of.startMs + atMs) / 60_000);
      used = inMinute === minute ? used + 1 : 1;
      minute = inMinute;
      const near = { policy: 'api', by: 'apiKey', used, limit: 600, windowMs: 60_000 };
      const token = dice.chance(0.005);
      scene.ask(client, of.startMs + atMs, 'call', {
        ...(token ? { method: 'POST', path: '/api/token' } : { path: `/api/orders/${dice.int(90_000)}` }),
        status: dice.chance(0.02) ? dice.pick([404, 404, 422, 401, 500]) : 200,
        near: used >= 360 && used <= 600 ? near : undefined,
      });
      atMs += dice.exponential(60_000 / perMinute);
    }
  }
  return scene.sorted();
}
