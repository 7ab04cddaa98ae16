/**
 * How a person goes through a site: a page, its assets and calls, a while of reading, the next page; a login
 * with the typos that people make.
 */
import type { Client, Scene } from './scene.js';

const CATEGORIES = ['shoes', 'coats', 'bags', 'sale', 'new', 'kids', 'home', 'sport'] as const;

export type Plan = Readonly<{
  pages: number;
  /** Median of the time on a page. */
  readMs: number;
  /** Part of the attempts that fails for a typo; undefined: no login. */
  typos?: number;
  /** The cookie is there from the first request: a visitor who has been here before. */
  known?: boolean;
  /** Where the visit begins; the front page where absent. */
  landing?: readonly string[];
  /** Asked before each page: an address that changes on the way. */
  moves?: (client: Client) => Client;
}>;

/** Answers when it ended. */
export function visit(scene: Scene, from: Client, startMs: number, plan: Plan): number {
  const { dice } = scene;
  const session = from.session ?? dice.hex(22);
  let client: Client = plan.known === true ? { ...from, session } : from;
  let atMs = startMs;
  const loginAt = plan.typos === undefined ? -1 : Math.min(plan.pages - 1, dice.int(3));
  for (let page = 0; page < plan.pages; page++) {
    if (plan.moves !== undefined) client = plan.moves(client);
    load(scene, client, atMs, plan.landing?.[page] ?? pathOf(scene, page));
    client = { ...client, session };
    atMs += Math.min(dice.logNormal(plan.readMs, 0.8), 20 * plan.readMs);
    if (page === loginAt) atMs = login(scene, client, atMs, plan.typos ?? 0);
  }
  return atMs;
}

function pathOf({ dice }: Scene, page: number): string {
  if (page === 0) return '/';
  if (dice.chance(0.08)) return '/cart';
  if (dice.chance(0.05)) return '/search';
  return dice.chance(0.4)
    ? `/c/${dice.pick(CATEGORIES)}`
    : `/p/${1000 + Math.floor(4000 * dice.next() ** 3)}`;
}

function load(scene: Scene, client: Client, atMs: number, path: string): void {
  const { dice } = scene;
  scene.ask(client, atMs, 'page', { path, status: dice.chance(0.01) ? 404 : 200 });
  const first = client.session === undefined;
  const assets = first ? ['/assets/app.css', '/assets/app.js', '/favicon.ico'] : [];
  const images = 1 + dice.int(3);
  for (let at = 0; at < images; at++) assets.push(`/img/${dice.int(9000)}.webp`);
  for (const asset of assets) {
    const status = dice.chance(0.2) ? 304 : 200;
    scene.ask(client, atMs + dice.between(80, 900), 'asset', { path: asset, status });
  }
  if (dice.chance(0.6)) scene.ask(client, atMs + dice.between(300, 1500), 'call', { path: '/api/v1/cart' });
}

/** Most are right at once; whoever is not tries again, mostly with success; a few ask for a new password. */
export function login(scene: Scene, from: Client, startMs: number, typos: number): number {
  const { dice } = scene;
  const user = from.user ?? dice.hex(22);
  const client = { ...from, user };
  let atMs = startMs + dice.between(200, 800);
  scene.ask(from, atMs, 'page', { path: '/login' });
  for (let attempt = 0; attempt < 4; attempt++) {
    atMs += dice.logNormal(9_000, 0.5);
    const fails = dice.chance(attempt === 0 ? typos : 0.3);
    scene.ask(client, atMs, 'page', { method: 'POST', path: '/login', status: fails ? 401 : 302 });
    if (!fails) {
      scene.ask(client, atMs + dice.between(50, 400), 'page', { path: '/account' });
      return atMs + 1_000;
    }
  }
  scene.ask(client, atMs + 12_000, 'page', { method: 'POST', path: '/password-reset', status: 202 });
  return atMs + 15_000;
}
