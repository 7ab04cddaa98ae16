/**
 * Limits that could never hold because of another section: a site that is not there, a user that nothing
 * names, a cap above the one it is part of. Reads the values as written and never throws on odd shapes.
 */
import { nearestName } from '../core/nearest-name.js';
import { parseBytes } from '../core/schema.js';
import type { Path, Problem } from './problem.js';
import { at, list } from './raw.js';

const HELD_TOTAL = '128MB';

export function crossLimits(raw: unknown): Problem[] {
  const problems: Problem[] = [];
  list(at(raw, ['limits', 'policies'])).forEach((policy, index) => {
    if (at(policy, ['enabled']) === false) return;
    const path = ['limits', 'policies', index];
    oneOrMore(at(policy, ['match', 'site'])).forEach((site, nth) => {
      const one = typeof at(policy, ['match', 'site']) === 'string';
      const wrong = unknownSite(raw, site);
      const sitePath = [...path, 'match', 'site', ...(one ? [] : [nth])];
      if (wrong !== undefined) problems.push({ path: sitePath, message: wrong });
    });
    if (namesUser(policy) && !hasUserSource(raw))
      problems.push({
        path: [...path, 'by'],
        message: 'counts by user, but identity.user names no source: header, jwtClaim or jsonField fits there',
      });
  });
  checkHeld(raw, problems);
  return problems;
}

/** What is wrong with a site's name, undefined where there is such a site. */
export function unknownSite(raw: unknown, site: unknown): string | undefined {
  const known = list(at(raw, ['sites'])).flatMap((each) => {
    const name = at(each, ['name']);
    return typeof name === 'string' ? [name] : [];
  });
  if (typeof site !== 'string' || known.includes(site)) return undefined;
  const nearest = nearestName(site, known);
  const hint = nearest === undefined ? `known: ${known.join(', ')}` : `did you mean "${nearest}"?`;
  return `no site is named "${site}"; ${hint}`;
}

function namesUser(policy: unknown): boolean {
  const by = at(policy, ['by']);
  return [...oneOrMore(by), ...list(at(by, ['all']))].includes('user');
}

/** Without the section the shipped field names hold; an empty one names none. */
function hasUserSource(raw: unknown): boolean {
  const user = at(raw, ['identity', 'user']);
  if (user === undefined) return true;
  return ['header', 'jwtClaim', 'jsonField'].some((key) => at(user, [key]) !== undefined);
}

function checkHeld(raw: unknown, problems: Problem[]): void {
  const path: Path = ['body', 'heldPerAddress'];
  const each = at(raw, path);
  const total = at(raw, ['body', 'heldTotal']) ?? HELD_TOTAL;
  const [part, whole] = [bytesOf(each), bytesOf(total)];
  if (part !== undefined && whole !== undefined && part > whole)
    problems.push({ path, message: `found ${String(each)}; at most body.heldTotal (${String(total)}) fits` });
}

function bytesOf(value: unknown): number | undefined {
  return typeof value === 'number' ? value : typeof value === 'string' ? parseBytes(value) : undefined;
}

function oneOrMore(value: unknown): readonly unknown[] {
  return Array.isArray(value) ? value : value === undefined ? [] : [value];
}
