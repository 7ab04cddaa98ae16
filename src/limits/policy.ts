/**
 * A policy compiled for the hot path, and what it asks the store about one request: its limit for the
 * identity that counts, a wider one for the IPv6 /56, and a wider one for the address behind a key, session
 * or user that the client may have made up (else a new cookie with each request would be a free pass).
 * Addresses that many people share have their limits widened.
 */
import type { FieldReader, Identities, IdentityName } from '../core/identity.js';
import type { RequestFacts } from '../core/request.js';
import type { LimitsConfig, PolicyConfig } from './config.js';
import { encodeIdentity, keyParts, type KeyParts } from './key.js';
import type { AlgorithmName, Check } from './limiter-contract.js';
import { compileMatch, type Matcher } from './match.js';
import { compileStatus, type StatusSet } from './status.js';

/** A check and the words for it. */
export type Asked = Readonly<{ policy: Policy; by: string; check: Check; alarm: boolean }>;

const CACHED = { cached: true };

type Slot = Readonly<{
  by: string;
  names: readonly IdentityName[];
  factor: number;
  /** What a shared address does to it: nothing, at least its own factor, or that on top. */
  shared: 'none' | 'atLeast' | 'onTop';
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
  /** Present where answers count, not requests. */
  countOn: StatusSet | undefined;
}>;

/** Of these alone a limit belongs to an address, whoever sits behind it. */
const ADDRESS_NAMES: ReadonlySet<IdentityName> = new Set<IdentityName>([
  'ip',
  'wideIp',
  'path',
  'host',
  'site',
]);

/** What is exact, asked without counting, or delayed needs the store itself. */
const cacheable = ({ exact, algorithm, countOn, delayMax }: PolicyConfig): boolean =>
  !exact && algorithm !== 'sliding-log' && countOn === undefined && delayMax === 0;

export function compilePolicy(config: PolicyConfig, limits: LimitsConfig, identities: Identities): Policy {
  const joined = typeof config.by === 'object' && 'all' in config.by;
  const names: readonly IdentityName[] =
    typeof config.by === 'string' ? [config.by] : 'all' in config.by ? config.by.all : config.by;
  // The wider counters never use the sliding log: fifty times its limit in stamps is not small.
  const widens = (config.widen ?? !config.exact) && config.algorithm !== 'sliding-log';
  const slot = (of: readonly IdentityName[], factor: number, role = ''): Slot => {
    const by = of.join('+');
    const algorithm = factor > 1 && config.algorithm === 'sliding-log' ? 'sliding-counter' : config.algorithm;
    const parts = keyParts(by, config.name + role, { algorithm, windowMs: config.limit.windowMs });
    const byAddress =
      of.every((name) => ADDRESS_NAMES.has(name)) && (of.includes('ip') || of.includes('wideIp'));
    const shared = !widens || !byAddress ? 'none' : of.includes('wideIp') ? 'onTop' : 'atLeast';
    return { by, names: of, factor, shared, algorithm, parts };
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
    cached: config.cache ?? cacheable(config),
    wide,
    address,
    countOn: config.countOn === undefined ? undefined : compileStatus(config.countOn.status),
  };
}

/** True where a shared address makes one of its limits wider. */
export function canWiden({ slots, wide, address }: Policy): boolean {
  return [...slots, ...wide.values(), ...(address === undefined ? [] : [address])].some(
    (slot) => slot.shared !== 'none',
  );
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

type Reading = Readonly<{
  facts: RequestFacts;
  field: FieldReader | undefined;
  identities: Identities;
  /** How many times its limit the client's address gets, from 1. */
  shared: number;
}>;

type Counted = Readonly<{ slot: Slot; identity: string; shared: number }>;

/** Appends the policy's checks for this request to `into`. */
export function ask(policy: Policy, reading: Reading, into: Asked[]): void {
  const chosen = choose(policy, reading);
  if (chosen === undefined) return;
  const { slot } = chosen;
  const { shared } = reading;
  const counted = { ...chosen, shared };
  into.push(asked(policy, counted));
  // Whichever of several users the origin takes, their attempts are counted.
  if (!policy.joined && reading.identities.others !== undefined) {
    for (const other of reading.identities.others(slot.names[0] ?? 'ip', reading.facts, reading.field))
      into.push(asked(policy, { slot, identity: encodeIdentity(other), shared }));
  }
  const { client } = reading.facts;
  const v6 = client.wideKey !== client.key;
  const wide = v6 ? policy.wide.get(slot.by) : undefined;
  if (wide !== undefined)
    into.push(asked(policy, { slot: wide, identity: identityOf(wide, reading), shared }));
  if (policy.address !== undefined && slot.by !== 'ip')
    into.push(asked(policy, { slot: policy.address, identity: encodeIdentity(client.key), shared }));
  if (policy.config.burstAlarm !== undefined) into.push(alarm(policy, counted));
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

function factorOf({ factor, shared }: Slot, widened: number): number {
  if (shared === 'none') return factor;
  return shared === 'onTop' ? factor - 1 + widened : Math.max(factor, widened);
}

function asked(policy: Policy, { slot, identity, shared }: Counted): Asked {
  const { limit, burst, cost, delayMax, exact } = policy.config;
  const factor = factorOf(slot, shared);
  const check: Check = {
    key: slot.parts.prefix + identity + slot.parts.suffix,
    algorithm: slot.algorithm,
    limit: limit.limit * factor,
    windowMs: limit.windowMs,
    burst: (burst ?? limit.limit) * factor,
    cost,
    ...(policy.cached ? CACHED : {}),
    ...(policy.countOn === undefined || exact ? {} : PEEK),
    ...(delayMax > 0 ? { delayMaxMs: delayMax } : {}),
  };
  return { policy, by: slot.by, check, alarm: false };
}

const PEEK = { op: 'peek' } as const;

function alarm(policy: Policy, { slot, identity, shared }: Counted): Asked {
  const { limit: base, windowMs } = policy.config.burstAlarm ?? policy.config.limit;
  const key = `${slot.parts.prefix}${identity}${slot.parts.suffix}/alarm/${windowMs}`;
  const limit = base * factorOf(slot, shared);
  const { cost } = policy.config;
  const also = policy.cached ? CACHED : {};
  const check: Check = { key, algorithm: 'fixed-window', limit, windowMs, burst: limit, cost, ...also };
  return { policy, by: slot.by, check, alarm: true };
}
