/** Finds whom of a list of subjects a request belongs to. */
import { subjectKey, type Subject, type SubjectKind } from '../controls/ban.js';
import { networkContains, parseNetwork, type Network } from '../core/address.js';
import { createCidrSet } from '../structures/cidr-set.js';
import type { GoodRequest } from './detector.js';

type Asker = Pick<GoodRequest, 'ip' | 'key' | 'session' | 'apiKey' | 'ja4' | 'headerHash'>;

export type Matcher = Readonly<{
  /** Place of the first subject that fits, or -1. */
  find(request: Asker): number;
}>;

export function createMatcher(subjects: readonly Subject[]): Matcher {
  const exact = new Map<string, number>();
  const networks: Readonly<{ at: number; network: Network }>[] = [];
  const wide = createCidrSet();
  for (const [at, subject] of subjects.entries()) {
    const key = subjectKey(subject);
    if (!exact.has(key)) exact.set(key, at);
    const isNetwork = subject.kind === 'network' && subject.value.includes('/');
    const network = isNetwork ? parseNetwork(subject.value) : undefined;
    if (network !== undefined && wide.add(network)) networks.push({ at, network });
  }
  const placeOf = (kind: SubjectKind, value: string | undefined): number | undefined =>
    value === undefined ? undefined : exact.get(subjectKey({ kind, value }));
  return {
    find({ ip, key, session, apiKey, ja4, headerHash }) {
      const known =
        placeOf('network', ip) ??
        placeOf('network', key) ??
        placeOf('session', session) ??
        placeOf('apiKey', apiKey) ??
        placeOf('ja4', ja4) ??
        placeOf('headers', headerHash);
      if (known !== undefined || !wide.has(ip)) return known ?? -1;
      const address = parseNetwork(ip);
      if (address === undefined) return -1;
      return networks.find(({ network }) => networkContains(network, address))?.at ?? -1;
    },
  };
}
