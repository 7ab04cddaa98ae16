/** What the tests of the limits share: requests in a line, and a limiter over a clock that they move. */
import type { Finding } from '../core/finding.js';
import type { Identities, IdentityName } from '../core/identity.js';
import type { RequestFacts } from '../core/request.js';
import { limitsSection } from './config.js';
import { createLimiter, type LimiterDeps } from './limiter.js';
import { memoryStore } from './stores/memory.js';

export type Sent = {
  method?: string;
  path?: string;
  host?: string;
  ip?: string;
  key?: string;
  wide?: string;
  hasBody?: boolean;
  site?: string;
  ids?: Record<string, string>;
  /** What the origin answers once the request has passed; nothing where absent. */
  answer?: number;
  setCookies?: readonly string[];
};

export function facts({
  method = 'GET',
  path = '/',
  host = 'app.test',
  ip = '192.0.2.1',
  ...rest
}: Sent): RequestFacts {
  const key = rest.key ?? ip;
  return {
    requestId: 'r',
    receivedAtMs: 0,
    site: rest.site ?? 's',
    unknownHost: false,
    method,
    target: path,
    path,
    query: '',
    cleanPath: path,
    httpVersion: '1.1',
    scheme: 'http',
    host,
    rawHeaders: [],
    headers: new Map(Object.entries(rest.ids ?? {})),
    client: { ip, key, wideKey: rest.wide ?? key, peer: ip, viaProxy: false },
    hasBody: rest.hasBody ?? false,
    contentLength: undefined,
  };
}

const head: Partial<Record<IdentityName, (facts: RequestFacts) => string | undefined>> = {
  ip: ({ client }) => client.key,
  wideIp: ({ client }) => client.wideKey,
  path: ({ cleanPath }) => cleanPath,
  host: ({ host }) => host,
  site: ({ site }) => site,
  session: ({ headers }) => headers.get('session'),
  apiKey: ({ headers }) => headers.get('apikey'),
};
export const identities: Identities = {
  read: (name, given, field) => (name === 'user' ? field?.('username') : head[name]?.(given)),
  inBody: (name) => name === 'user',
  issued: (setCookie) => /^sid=([^;]+)/.exec(setCookie)?.[1],
};

export const off = ['ingress', 'api', 'login', 'passwordReset'].map((name) => ({ name, enabled: false }));

export function setUp(limits: object, deps: Partial<LimiterDeps> = {}) {
  let nowMs = 1_000_000;
  const clock = { nowMs: () => nowMs };
  const store = deps.store ?? memoryStore({ clock });
  const limiter = createLimiter(limitsSection.parse(limits), { store, identities, clock, ...deps });
  const send = async (sent: Sent, body?: Record<string, string>): Promise<readonly Finding[]> => {
    const request = facts({ ...sent, hasBody: body !== undefined });
    const found = await limiter.judge(request, undefined);
    return body === undefined ? found : [...found, ...(await limiter.judge(request, (name) => body[name]))];
  };
  /** How many of `count` were let through. */
  const passing = async (
    count: number,
    make: (at: number) => Sent,
    body?: (at: number) => Record<string, string>,
  ) => {
    let passed = 0;
    for (let at = 0; at < count; at++) {
      const found = await send(make(at), body?.(at));
      if (!found.some(({ kind, observed }) => kind === 'limit' && observed !== true)) passed++;
    }
    return passed;
  };
  /** As the proxy does it: the origin answers what was not refused. */
  const served = async (sent: Sent, body?: Record<string, string>): Promise<boolean> => {
    const request = facts({ ...sent, hasBody: body !== undefined });
    const found = [...(await limiter.judge(request, undefined))];
    if (body !== undefined) found.push(...(await limiter.judge(request, (name) => body[name])));
    const passed = !found.some(({ kind, observed }) => kind === 'limit' && observed !== true);
    limiter.answered(request, {
      status: passed ? (sent.answer ?? 0) : 0,
      setCookies: passed ? (sent.setCookies ?? []) : [],
    });
    return passed;
  };
  return { limiter, store, send, served, passing, move: (ms: number) => (nowMs += ms) };
}

export const only = (policy: object, more: object = {}) => ({
  policies: [...off, { name: 'p', ...policy }],
  ...more,
});

