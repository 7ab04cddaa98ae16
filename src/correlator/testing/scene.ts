/** What all made traffic has in common: one observation, where it comes from, with which software. */
import { prefixKey } from '../../core/address.js';
import type { Observation } from '../../core/observation.js';
import { createDice, type Dice } from './dice.js';

/** 2026-11-30 09:00 UTC, a Monday. */
export const START_MS = Date.UTC(2026, 10, 30, 9);

/** A GET that was answered with 200; `key` follows `ip` where it is not given. */
export function observation(over: Partial<Observation> = {}): Observation {
  const ip = over.ip ?? '198.51.100.7';
  return {
    timeMs: START_MS,
    requestId: 'r-1',
    node: 'gate-1',
    site: 'shop',
    ip,
    key: prefixKey(ip, 64),
    asn: 64_500,
    userAgent: CHROME.userAgent,
    session: undefined,
    apiKey: undefined,
    user: undefined,
    headerHash: `${CHROME.headers}-page`,
    ja4: undefined,
    method: 'GET',
    path: '/',
    status: 200,
    upstreamStatus: 200,
    refusal: 'none',
    allowlisted: false,
    near: undefined,
    ...over,
  };
}

/** When it begins (milliseconds since the epoch), how long it lasts, and the seed of its dice. */
export type Span = Readonly<{ startMs: number; lengthMs: number; seed: number }>;

export const span = (over: Partial<Span> = {}): Span => ({
  startMs: START_MS,
  lengthMs: 600_000,
  seed: 1,
  ...over,
});

/** Client software: what it calls itself, and its order of header fields. */
export type Agent = Readonly<{ userAgent: string; headers: string }>;

const chromeOn = (system: string): Agent => ({
  userAgent: `Mozilla/5.0 (${system}) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/141.0.0.0 Safari/537.36`,
  headers: 'chromium',
});
const CHROME = chromeOn('Windows NT 10.0; Win64; x64');
export const OFFICE_BROWSER: Agent = {
  userAgent: CHROME.userAgent.replace('141.0.0.0', '138.0.7204.251 Edg/138.0.3351.140'),
  headers: 'chromium',
};
export const PHONES: readonly (readonly [Agent, number])[] = [
  [
    {
      userAgent:
        'Mozilla/5.0 (iPhone; CPU iPhone OS 18_7 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) ' +
        'Version/26.0 Mobile/15E148 Safari/604.1',
      headers: 'webkit',
    },
    55,
  ],
  [chromeOn('Linux; Android 10; K'), 40],
  [
    { userAgent: 'Mozilla/5.0 (Android 15; Mobile; rv:144.0) Gecko/144.0 Firefox/144.0', headers: 'gecko' },
    5,
  ],
];
export const BROWSERS: readonly (readonly [Agent, number])[] = [
  [CHROME, 45],
  [{ ...CHROME, userAgent: CHROME.userAgent.replace('141.', '140.') }, 8],
  [chromeOn('X11; Linux x86_64'), 2],
  [
    {
      userAgent:
        'Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) AppleWebKit/605.1.15 (KHTML, like Gecko) ' +
        'Version/26.0 Safari/605.1.15',
      headers: 'webkit',
    },
    10,
  ],
  [
    {
      userAgent: 'Mozilla/5.0 (Windows NT 10.0; Win64; x64; rv:144.0) Gecko/20100101 Firefox/144.0',
      headers: 'gecko',
    },
    6,
  ],
  ...PHONES.map(([agent, share]) => [agent, share / 3] as const),
];

/** Who asks: its address (and ASN) may change on the way, the software does not. */
export type Client = Readonly<{
  ip: string;
  asn: number;
  agent: Agent;
  site: string;
  session?: string;
  apiKey?: string;
  user?: string;
}>;

export type Kind = 'page' | 'asset' | 'call';
export type Asked = Partial<
  Pick<Observation, 'method' | 'path' | 'status' | 'upstreamStatus' | 'refusal' | 'near'>
>;

/** Collects what a generator makes; `sorted` gives it by time. */
export type Scene = Readonly<{
  dice: Dice;
  /** `kind` tells a page from its assets and calls: browsers order the fields of each differently. */
  ask(client: Client, timeMs: number, kind: Kind, over: Asked): void;
  sorted(): Observation[];
}>;

export function openScene(name: string, { seed, startMs, lengthMs }: Span): Scene {
  const dice = createDice(seed * 7919 + name.length * 104_729 + name.charCodeAt(0));
  const made: Observation[] = [];
  const endMs = startMs + lengthMs;
  return {
    dice,
    ask(client, timeMs, kind, over) {
      if (timeMs < startMs || timeMs >= endMs) return;
      const status = over.status ?? 200;
      made.push({
        timeMs: Math.floor(timeMs),
        requestId: `${name}-${seed}-${made.length}`,
        node: 'gate-1',
        site: client.site,
        ip: client.ip,
        key: prefixKey(client.ip, 64),
        asn: client.asn,
        userAgent: client.agent.userAgent,
        session: client.session,
        apiKey: client.apiKey,
        user: client.user,
        headerHash: `${client.agent.headers}-${kind}`,
        ja4: undefined,
        method: over.method ?? 'GET',
        path: over.path ?? '/',
        status,
        upstreamStatus: over.upstreamStatus ?? status,
        refusal: over.refusal ?? 'none',
        allowlisted: false,
        near: over.near,
      });
    },
    sorted: () => made.sort(byTime),
  };
}

const byTime = (a: Observation, b: Observation): number => a.timeMs - b.timeMs;

/** Several scenes as the gate would see them at once. */
export function together(...traffics: readonly (readonly Observation[])[]): Observation[] {
  return traffics.flat().sort(byTime);
}

/** An address of a household or host: each `index` its own, of the /8 `first`. */
export function ipv4(first: number, index: number): string {
  const mixed = Math.imul(index + 1, 0x9e3779b1) >>> 0;
  return `${first}.${(mixed >>> 24) & 255}.${(index >>> 8) & 255}.${index & 255 || 1}`;
}
