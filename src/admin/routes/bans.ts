/**
 * Bans: those in force, the audit trail, making and lifting one. Changes by POST with the token; what they
 * name may be a secret (a session, a key), which has no place in a URL.
 */
import { refused, type AdminAnswer, type AdminRoute, type BanTarget } from '../route.js';
import { carriedOut } from './controls.js';
import { actorOf } from './limits.js';

const WHOM = ['address', 'session', 'key', 'ja4', 'headers'] as const;
const TEXT_MAX = 4096;
const REASON_MAX = 200;

export const bans: AdminRoute = {
  method: 'GET',
  path: /^\/bans$/,
  answer: (state) => carriedOut(() => state.bans()),
};

export const banAudit: AdminRoute = {
  method: 'GET',
  path: /^\/bans\/audit$/,
  answer: (state) => carriedOut(async () => ({ entries: await state.banAudit() })),
};

export const banMake: AdminRoute = {
  method: 'POST',
  path: /^\/bans$/,
  answer: (state, { body, peer }) =>
    withTarget(body, ['for', 'observe', 'force'], ({ target, given, reason }) => {
      const { for: lasts, observe = false, force = false } = given;
      if (typeof lasts !== 'string') return refused(400, '"for" must be a duration such as "1h"');
      if (typeof observe !== 'boolean' || typeof force !== 'boolean')
        return refused(400, '"observe" and "force" are true or false');
      const by = { actor: actorOf(body), peer };
      return carriedOut(() => state.ban({ ...target, for: lasts, reason, observe, force }, by));
    }),
};

export const banLift: AdminRoute = {
  method: 'POST',
  path: /^\/bans\/lift$/,
  answer: (state, { body, peer }) =>
    withTarget(body, [], ({ target, reason }) =>
      carriedOut(async () => ({ lifted: await state.unban(target, { actor: actorOf(body), peer, reason }) })),
    ),
};

type Read = Readonly<{ target: BanTarget; given: Readonly<Record<string, unknown>>; reason: string }>;

function withTarget(
  body: unknown,
  more: readonly string[],
  then: (read: Read) => AdminAnswer | Promise<AdminAnswer>,
): AdminAnswer | Promise<AdminAnswer> {
  const given = (typeof body === 'object' && body !== null ? body : {}) as Record<string, unknown>;
  const known: readonly string[] = [...WHOM, 'reason', 'actor', ...more];
  const unknown = Object.keys(given).find((name) => !known.includes(name));
  if (unknown !== undefined)
    return refused(400, `"${unknown.slice(0, 40)}" is not known; there is ${known.join(', ')}`);
  const named = WHOM.filter((name) => given[name] !== undefined);
  const [name] = named;
  if (name === undefined || named.length > 1) return refused(400, `name one of ${WHOM.join(', ')}`);
  const value = given[name];
  if (typeof value !== 'string' || value === '' || value.length > TEXT_MAX)
    return refused(400, `"${name}" must be text of 1 to ${TEXT_MAX} characters`);
  const reason = reasonOf(given['reason']);
  if (reason === undefined)
    return refused(400, `"reason" must be text of 1 to ${REASON_MAX} characters: others will read it`);
  return then({ target: { [name]: value }, given, reason });
}

function reasonOf(value: unknown): string | undefined {
  if (typeof value !== 'string' || value.length > REASON_MAX) return undefined;
  // It stands in logs and tables.
  const text = value.replace(/[\s\p{Cc}\p{Cf}]+/gu, ' ').trim();
  return text === '' ? undefined : text;
}
