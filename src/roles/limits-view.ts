/** One identity's limits, shown and set back for the admin listener. Each reset leaves a line in the log. */
import type { AdminState, LimitsAsk } from '../admin/route.js';
import type { Config } from '../config/schema.js';
import { Fault } from '../core/errors.js';
import { claimedRequest } from '../identity/claimed.js';
import { createIdentities } from '../identity/index.js';
import { createInspector, type CounterStore, type LimitsInspector, type LimitsOf } from '../limits/index.js';
import { cleanPath } from '../proxy/facts.js';
import { canonicalHost, createSiteLookup } from '../proxy/host.js';
import type { Log } from './engines.js';
import type { WithStore } from './operator-store.js';

export type LimitsViewDeps = Readonly<{
  config: () => Config;
  /** The one that holds the counters. */
  withStore: WithStore;
  hashKey: () => string;
  note: Log;
}>;

const siteOf = (config: Config, host: string): string | undefined =>
  createSiteLookup(config.sites)(canonicalHost(host) ?? '');

export function limitsView(deps: LimitsViewDeps): Pick<AdminState, 'limits' | 'resetLimits'> {
  type Opened = Readonly<{ inspector: LimitsInspector; of: LimitsOf }>;
  const open = (ask: LimitsAsk, store: CounterStore): Opened => {
    const config = deps.config();
    const identities = createIdentities(config.identity, deps.hashKey());
    const inspector = createInspector(config.limits, { store, identities });
    const { policy } = ask;
    if (policy !== undefined && !inspector.policies.includes(policy))
      throw new Fault('POLICY_UNKNOWN', { name: policy, known: inspector.policies.join(', ') });
    const path = ask.path === undefined ? {} : { path: cleanPath(ask.path.split('?', 1)[0]!) };
    const site = ask.site ?? (ask.host === undefined ? undefined : siteOf(config, ask.host));
    const named = site === undefined ? {} : { site };
    const claimed = claimedRequest({ ...ask, ...path, ...named }, config.identity, config.ipv6Prefix);
    if (claimed === undefined) throw new Fault('ADDRESS_UNREADABLE', { text: ask.ip ?? '' });
    const matching = [ask.path, ask.method, ask.host, ask.site].some((value) => value !== undefined);
    return { inspector, of: { ...claimed, policy, matching } };
  };
  return {
    limits: (ask) =>
      deps.withStore(async (store) => {
        const { inspector, of } = open(ask, store);
        return { limits: await inspector.show(of) };
      }),
    async resetLimits(ask, { actor, peer }) {
      const { limits, of } = await deps.withStore(async (store) => {
        const opened = open(ask, store);
        return { limits: await opened.inspector.reset(opened.of), of: opened.of };
      });
      deps.note('warn', 'limits set back', {
        audit: 'limits.reset',
        actor,
        peer,
        of: [...of.given].filter((name) => name !== 'wideIp'),
        ...(ask.ip === undefined ? {} : { ip: of.facts.client.key }),
        policies: [...new Set(limits.map(({ policy }) => policy))],
        used: limits.reduce((sum, { used }) => sum + used, 0),
      });
      return { limits };
    },
  };
}
