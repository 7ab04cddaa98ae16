/**
 * How the limits of one identity stand, and setting them back. Both by POST with the token: what is asked
 * with may be a secret (a session, a key), which has no place in a URL.
 */
import { refused, type AdminAnswer, type AdminRoute, type LimitsAsk } from '../route.js';
import { carriedOut } from './controls.js';

const NAMES = ['ip', 'session', 'key', 'user', 'policy', 'path', 'method', 'host', 'site'] as const;
const WHO = ['ip', 'session', 'key', 'user', 'path', 'host'] as const;
const TEXT_MAX = 4096;

export const limits: AdminRoute = {
  method: 'POST',
  path: /^\/limits$/,
  answer: (state, { body }) => withAsk(body, (ask) => carriedOut(() => state.limits(ask))),
};

export const limitsReset: AdminRoute = {
  method: 'POST',
  path: /^\/limits\/reset$/,
  answer: (state, { body, peer }) =>
    withAsk(body, (ask) => carriedOut(() => state.resetLimits(ask, { actor: actorOf(body), peer }))),
};

function withAsk(
  body: unknown,
  then: (ask: LimitsAsk) => Promise<AdminAnswer>,
): AdminAnswer | Promise<AdminAnswer> {
  const given = (typeof body === 'object' && body !== null ? body : {}) as Record<string, unknown>;
  const ask: Record<string, string> = {};
  for (const name of NAMES) {
    const value = given[name];
    if (value === undefined) continue;
    if (typeof value !== 'string' || value === '' || value.length > TEXT_MAX)
      return refused(400, `"${name}" must be text of 1 to ${TEXT_MAX} characters`);
    ask[name] = value;
  }
  const unknown = Object.keys(given).find((name) => name !== 'actor' && !NAMES.some((each) => each === name));
  if (unknown !== undefined)
    return refused(400, `"${unknown.slice(0, 40)}" is not known; there is ${NAMES.join(', ')}`);
  if (!WHO.some((name) => ask[name] !== undefined)) return refused(400, `name one of ${WHO.join(', ')}`);
  return then(ask);
}

/** Who says to be asking; the token alone proves nothing about a person. */
export function actorOf(body: unknown): string {
  const { actor } = body as { actor?: unknown };
  return typeof actor === 'string' ? actor.replace(/[^\x20-\x7e]/g, '').slice(0, 128) : 'unnamed';
}
