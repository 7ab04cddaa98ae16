/**
 * A policy compiled for the hot path, and what it asks the store about one request: its limit for the
 * identity that counts, a wider one for the IPv6 /56, and a wider one for the address behind a key, session
 * or user that the client may have made up (else a new cookie with each request would be a free pass).
 */
import type { FieldReader, Identities, IdentityName } from '../core/identity.js';
import type { RequestFacts } from '../core/request.js';
import type { LimitsConfig, PolicyConfig } from './config.js';
import { encodeIdentity, keyParts, type KeyParts } from './key.js';
import type { AlgorithmName, Check } from './limiter-contract.js';
import { compileMatch, type Matcher } from './match.js';

/** A check and the words for it. */
export type Asked = Readonly<{ policy: Policy; by: string; check: Check; alarm: boolean }>;

const CACHED = { cached: true };

type Slot = Readonly<{
  by: string;
  names: readonly IdentityName[];
  factor: number;
  algorithm: AlgorithmName;
  parts: KeyParts;
}>;

export type Policy = Readonly<{
  config: PolicyConfig;
  id: string;
  onFailure: 'local' | 'pass' | 'refuse';
  matches: Matcher;
  /** Ways to count, in order of preference; the last one stands for a missing identity too. */
  slots: readonly Slot[];
  joined: boolean;
  /** True where a body field may say who it is. */
  readsBody: boolean;
  /** True where the hot-key cache may count it. */
  cached: boolean;
  wide: ReadonlyMap<string, Slot>;
  address: Slot | undefined;
}>;

export function compilePolicy(config: PolicyConfig, limits: LimitsConfig, identities: Identities): Policy {
  const joined = typeof config.by === 'object' && 'all' in config.by;
  const names: readonly IdentityName[] =
    typeof config.by === 'string' ? [config.by] : 'all' in config.by ? config.by.all : config.by;
  // The wider counters never use the sliding log: fifty times its limit in stamps is not small.
  const slot = (of: readonly IdentityName[], factor: number, role = ''): Slot => {
    const by = of.join('+');
    const algorithm = factor > 1 && config.algorithm === 'sliding-log' ? 'sliding-counter' : config.algorithm;
    const parts = keyParts(by, config.name + role, { algorithm, windowMs: config.limit.windowMs });
    return { by, names: of, factor, algorithm, parts };
  };
  const slots = joined ? [slot(names, 1)] : names.map((name) => slot([name], 1));
  const address =
    !joined && names.length > 1 && names.includes('ip')
      ? slot(['ip'], limits.addressFactor, '/address')
      : undefined;
  const wide = new Map<string, Slot>();
  for (const { by, names: of } of slots) {
    if (of.includes('ip'))
      wide.set(
        by,
        slot(
          of.map((name) => (name === 'ip' ? 'wideIp' : name)),
          limits.ipv6WideFactor,
        ),
      );
  }
  return {
    config,
    id: `LIMIT-${config.name.toUpperCase()}`,
    onFailure: config.onFailure ?? limits.onFailure,
    matches: compileMatch(config.match),
    slots,
    joined,
    readsBody: names.some((name) => identities.inBody(name)),
    cached: config.cache ?? (!config.exact && config.algorithm !== 'sliding-log'),
    wide,
    address,
  };
}

/** True where the head cannot tell who it is and a body follows that may. */
export function waitsForBody(policy: Policy, facts: RequestFacts, identities: Identities): boolean {
  if (!policy.readsBody || !facts.hasBody) return false;
  for (const { names } of policy.slots) {
    for (const name of names) {
      const known = identities.read(name, facts, undefined) !== undefined;
      if (!known && identities.inBody(name)) return true;
      // An identity preferred to the one in the body is present: it counts, and the body is not waited for.
      if (known && !policy.joined) return false;
    }
  }
  return false;
}

type Reading = Readonly<{ facts: RequestFacts; field: FieldReader | undefined; identities: Identities }>;

/** Appends the policy's checks for this request to `into`. */
export function ask(policy: Policy, reading: Reading, into: Asked[]): void {
  const chosen = choose(policy, reading);
  if (chosen === undefined) return;
  const { slot, identity } = chosen;
  push(policy, slot, identity, into);
  const { client } = reading.facts;
  const v6 = client.wideKey !== client.key;
  const wide = v6 ? policy.wide.get(slot.by) : undefined;
  if (wide !== undefined) push(policy, wide, identityOf(wide, reading), into);
  if (policy.address !== undefined && slot.by !== 'ip')
    push(policy, policy.address, encodeIdentity(client.key), into);
  if (policy.config.burstAlarm !== undefined) into.push(alarm(policy, slot, identity));
}

function choose(policy: Policy, reading: Reading): { slot: Slot; identity: string } | undefined {
  const { identities, facts, field } = reading;
  if (!policy.joined) {
    for (const slot of policy.slots) {
      const value = identities.read(slot.names[0] ?? 'ip', facts, field);
      if (value !== undefined) return { slot, identity: encodeIdentity(value) };
    }
  }
  const last = policy.slots.at(-1);
  return last === undefined ? undefined : { slot: last, identity: identityOf(last, reading) };
}

/** Parts joined by `|`, which no encoded part contains. */
function identityOf(slot: Slot, { identities, facts, field }: Reading): string {
  if (slot.names.length === 1) return encodeIdentity(identities.read(slot.names[0] ?? 'ip', facts, field));
  return slot.names.map((name) => encodeIdentity(identities.read(name, facts, field))).join('|');
}

function push(policy: Policy, slot: Slot, identity: string, into: Asked[]): void {
  const { limit, burst, cost } = policy.config;
  const check: Check = {
    key: slot.parts.prefix + identity + slot.parts.suffix,
    algorithm: slot.algorithm,
    limit: limit.limit * slot.factor,
    windowMs: limit.windowMs,
    burst: (burst ?? limit.limit) * slot.factor,
    cost,
    ...(policy.cached ? CACHED : {}),
  };
  into.push({ policy, by: slot.by, check, alarm: false });
}

function alarm(policy: Policy, slot: Slot, identity: string): Asked {
  const { limit, windowMs } = policy.config.burstAlarm ?? policy.config.limit;
  const key = `${slot.parts.prefix}${identity}${slot.parts.suffix}/alarm/${windowMs}`;
  const check: Check = {
    key,
    algorithm: 'fixed-window',
    limit,
    windowMs,
    burst: limit,
    cost: policy.config.cost,
    ...(policy.cached ? CACHED : {}),
  };
  return { policy, by: slot.by, check, alarm: true };
}
