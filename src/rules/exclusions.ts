/** Where a rule does not apply: an exclusion names a rule and may narrow it by site, path and target. */
import type { RequestFacts } from '../core/request.js';
import type { RulesConfig } from './config.js';

type Place = Readonly<{ facts: Pick<RequestFacts, 'site' | 'cleanPath'>; target: string }>;

export function isExcluded(
  exclusions: RulesConfig['exclusions'],
  ruleId: string,
  { facts, target }: Place,
): boolean {
  for (const exclusion of exclusions) {
    if (!fits(exclusion.rule, ruleId)) continue;
    if (exclusion.site !== undefined && exclusion.site !== facts.site) continue;
    if (exclusion.path !== undefined && !fits(exclusion.path, facts.cleanPath)) continue;
    if (exclusion.target !== undefined && !fits(exclusion.target, target)) continue;
    return true;
  }
  return false;
}

function fits(wanted: string, found: string): boolean {
  return wanted.endsWith('*') ? found.startsWith(wanted.slice(0, -1)) : wanted === found;
}
