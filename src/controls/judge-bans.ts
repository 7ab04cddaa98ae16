/**
 * Stage 1's question to the bans: is whoever sent this request banned, by address, session, key or
 * fingerprint? Identities are read only where bans on their kind exist; without any ban it costs one look at
 * a number.
 */
import { NO_FINDINGS, type Finding } from '../core/finding.js';
import type { RequestFacts } from '../core/request.js';
import type { SubjectKind } from './ban.js';
import { findingsOf, type BanSet, type HeldBan } from './ban-set.js';

type Named = Exclude<SubjectKind, 'network'>;

/** How the values of each kind are read from a request; none where it carries none. */
export type SubjectReaders = Readonly<
  Partial<Record<Named, (facts: RequestFacts) => readonly (string | undefined)[]>>
>;

export type BanJudge = (facts: RequestFacts) => readonly Finding[];

const NAMED: readonly Named[] = ['session', 'apiKey', 'ja4', 'headers'];

/** `set` answers the set in use now: it is replaced as a whole now and then. */
export function createBanJudge(
  set: () => BanSet,
  deps: Readonly<{ nowMs: () => number; readers: SubjectReaders }>,
): BanJudge {
  const { nowMs, readers } = deps;
  return (facts) => {
    const bans = set();
    if (bans.size === 0) return NO_FINDINGS;
    const now = nowMs();
    let found: HeldBan | undefined = bans.ofAddress(facts.client.ip, now);
    for (const kind of NAMED) {
      if (found?.enforced === true) break;
      const values = bans.has(kind) ? readers[kind]?.(facts) : undefined;
      for (const value of values ?? []) {
        const ban = value === undefined ? undefined : bans.of(kind, value, now);
        if (ban !== undefined && (found === undefined || ban.enforced)) found = ban;
      }
    }
    return found === undefined ? NO_FINDINGS : findingsOf(found);
  };
}
