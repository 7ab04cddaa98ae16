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
