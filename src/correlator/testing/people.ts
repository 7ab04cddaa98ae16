/**
 * Traffic of people that looks like an attack at first sight: the office behind one address, the carrier
 * whose customers change theirs, the launch that brings thousands of strangers. All must stay unbanned.
 */
import type { Observation } from '../../core/observation.js';
import type { Client, Scene, Span } from './scene.js';
import { ipv4, OFFICE_BROWSER, openScene, PHONES, span } from './scene.js';
import { visit } from './visit.js';

/**
 * 40 colleagues behind one address, the same browser build rolled out to all. They come at nine within some
 * minutes; one in seven mistypes a password on Monday morning. Later they come and go.
 */
export function office(over: Partial<Span> = {}, people = 40): Observation[] {
  const of = span(over);
  const scene = openScene('office', of);
  const { dice } = scene;
  for (let at = 0; at < people; at++) {
    const colleague: Client = {
      ip: '203.0.113.50',
      asn: 64_510,
      agent: OFFICE_BROWSER,
      site: 'shop',
      user: dice.hex(22),
      session: dice.hex(22),
    };
    let nextMs = of.startMs + dice.exponential(Math.min(90_000, of.lengthMs / 4));
    for (let first = true; nextMs < of.startMs + of.lengthMs; first = false) {
      const plan = { pages: 3 + dice.int(8), readMs: 15_000, known: true };
      nextMs = visit(scene, colleague, nextMs, first ? { ...plan, typos: 0.15 } : plan);
      nextMs += dice.exponential(20 * 60_000);
    }
  }
  return scene.sorted();
}

/** Its exits: thousands of IPv4 of its NAT, and two /40s of IPv6, one /64 for each phone and hour. */
function carrierAddress({ dice }: Scene): string {
  if (dice.chance(0.35)) return `100.${64 + dice.int(4)}.${dice.int(12)}.${1 + dice.int(200)}`;
  const block = dice.pick(['a0', 'b1']);
  // A region's gateway hands out one /48; the /64s in it are many and follow no order.
  const region = dice.int(24).toString(16).padStart(2, '0');
  const group = (): string => (1 + dice.int(0xfffe)).toString(16);
  return `2001:db8:${block}${region}:${group()}::${group()}`;
}

/**
 * Phones of one carrier: thousands of addresses of one ASN, three user agents for nearly all. On the move a
 * session changes its address, also between IPv4 and IPv6.
 */
export function carrier(over: Partial<Span> = {}, people = 1500): Observation[] {
  const of = span(over);
  const scene = openScene('carrier', of);
  const { dice } = scene;
  for (let at = 0; at < people; at++) {
    const restless = dice.chance(0.3);
    const phone: Client = {
      ip: carrierAddress(scene),
      asn: 64_520,
      agent: dice.weighted(PHONES),
      site: dice.weighted([
        ['shop', 3],
        ['blog', 1],
      ]),
    };
    visit(scene, phone, of.startMs + dice.next() * of.lengthMs, {
      pages: 2 + dice.int(9),
      readMs: 12_000,
      known: dice.chance(0.5),
      ...(dice.chance(0.15) ? { typos: 0.18 } : {}),
      moves: (client) =>
        dice.chance(restless ? 0.4 : 0.04) ? { ...client, ip: carrierAddress(scene) } : client,
    });
  }
  return scene.sorted();
}

const LAUNCH_APP = { userAgent: 'ShopApp/7.0.0 (build 7001; iOS 18.7; Scale/3.00)', headers: 'cfnetwork' };
const LAUNCH_ANDROID = { userAgent: 'ShopApp/7.0.0 (build 7001; Android 15)', headers: 'okhttp' };
const LANDING = ['/launch', '/p/9000', '/cart'] as const;
const APP_CALLS = ['/api/v2/bootstrap', '/api/v2/launch', '/api/v2/products/9000', '/api/v2/cart'] as const;

/**
 * A product goes on sale: thousands of new addresses of many networks within minutes, most of them through
 * the same three URLs, half with the app version that came out for it and that nobody had before. Sessions
 * are new, logins pile up, and more people than usual mistype.
 */
export function launch(over: Partial<Span> = {}, people = 3000): Observation[] {
  const of = span(over);
  const scene = openScene('launch', of);
  const { dice } = scene;
  for (let at = 0; at < people; at++) {
    const app = dice.chance(0.5);
    const agent = app ? dice.pick([LAUNCH_APP, LAUNCH_APP, LAUNCH_ANDROID]) : dice.weighted(PHONES);
    const ip = ipv4(dice.pick([78, 79, 91]), at);
    const person: Client = { ip, asn: 64_600 + dice.int(60), agent, site: 'shop' };
    // Two minutes of rush, then it thins out.
    const startMs = of.startMs + Math.min(dice.exponential(of.lengthMs / 6), of.lengthMs * 0.9);
    if (app) openApp(scene, person, startMs);
    else {
      const typos = dice.chance(0.4) ? { typos: 0.2 } : {};
      visit(scene, person, startMs, { pages: 3 + dice.int(3), readMs: 7_000, landing: LANDING, ...typos });
    }
  }
  return scene.sorted();
}

function openApp(scene: Scene, from: Client, startMs: number): void {
  const { dice } = scene;
  let atMs = startMs;
  let client = from;
  for (const path of APP_CALLS) {
    scene.ask(client, atMs, 'call', { path });
    if (client.session === undefined) client = { ...client, session: dice.hex(22) };
    for (let image = dice.int(4); image > 0; image--) {
      scene.ask(client, atMs + dice.between(100, 700), 'asset', { path: `/img/${dice.int(9000)}.webp` });
    }
    atMs += dice.logNormal(4_000, 0.7);
  }
  if (!dice.chance(0.6)) return;
  const user = dice.hex(22);
  for (let attempt = 0; attempt < 4; attempt++) {
    const fails = dice.chance(attempt === 0 ? 0.2 : 0.3);
    const status = fails ? 401 : 200;
    scene.ask({ ...client, user }, atMs, 'call', { method: 'POST', path: '/api/login', status });
    if (!fails) break;
    atMs += dice.logNormal(8_000, 0.5);
  }
  for (let page = dice.int(4); page > 0; page--) {
    atMs += dice.logNormal(6_000, 0.7);
    scene.ask({ ...client, user }, atMs, 'call', { path: `/api/v2/products/${9000 + dice.int(30)}` });
  }
}
