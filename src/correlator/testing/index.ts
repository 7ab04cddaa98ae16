/** Made traffic with its label, for the tests of detectors and of the engine. */
import type { Observation } from '../../core/observation.js';
import { apiClients, batch, crawler, probe } from './machines.js';
import { carrier, launch, office } from './people.js';
import { BROWSERS, type Client, ipv4, openScene, type Scene, span, type Span, together } from './scene.js';
import { visit } from './visit.js';

export { type Attack, rotation, scraping, stuffing, swarm } from './attacks.js';
export { createDice, type Dice } from './dice.js';
export { apiClients, batch, crawler, probe } from './machines.js';
export { carrier, launch, office } from './people.js';
export { people, tries, type Tries, usualLogins } from './login-tries.js';
export { ipv4, observation, openScene, span, START_MS, together } from './scene.js';
export type { Agent, Client, Scene, Span } from './scene.js';
export { login, visit } from './visit.js';

/** Each must stay unbanned, alone and among the others, whatever detectors look on. */
export const LOOK_ALIKES = { office, carrier, probe, batch, launch, crawler } as const;

/**
 * An ordinary hour: people from everywhere on two sites, one in eight of whom logs in, and the API's clients.
 * `perMinute` visits begin in each minute.
 */
export function background(over: Partial<Span> = {}, perMinute = 60): Observation[] {
  const of = span(over);
  const scene = openScene('background', of);
  const { dice } = scene;
  const visits = Math.round((perMinute * of.lengthMs) / 60_000);
  for (let at = 0; at < visits; at++) {
    const v6 = dice.chance(0.4);
    const ip = v6 ? household(scene) : ipv4(dice.pick([80, 84, 93]), dice.int(60_000));
    const client: Client = {
      ip,
      asn: 64_700 + dice.int(25),
      agent: dice.weighted(BROWSERS),
      site: dice.pick(['shop', 'shop', 'blog']),
    };
    visit(scene, client, of.startMs + dice.next() * of.lengthMs, {
      pages: 1 + dice.int(10),
      readMs: 14_000,
      known: dice.chance(0.5),
      ...(dice.chance(0.12) ? { typos: 0.12 } : {}),
    });
  }
  return together(scene.sorted(), apiClients(of, Math.min(60, perMinute)));
}

/** Providers give each household a /56 of their /32, for months. */
function household({ dice }: Scene): string {
  const block = (0x4000 + dice.int(0x40)).toString(16);
  return `2001:db8:${block}:${(dice.int(0xff) + 1).toString(16)}00::${(1 + dice.int(0xfffe)).toString(16)}`;
}

/** All look-alikes over the same span, in ordinary traffic. */
export function innocents(over: Partial<Span> = {}): Observation[] {
  return together(background(over), ...Object.values(LOOK_ALIKES).map((make) => make(over)));
}
