/**
 * The bans as a worker looks them up at stage 1. Expiry is judged on each look-up, by the wall clock; no
 * timer has to run for it to be right.
 */
import { parseNetwork } from '../core/address.js';
import type { Finding } from '../core/finding.js';
import { createCidrMap, type CidrMap } from '../structures/cidr-map.js';
import { subjectOf, type BanMode, type Subject, type SubjectKind } from './ban.js';

/** What a worker needs of a ban; `watch` is none of its business. */
export type BanRow = readonly [
  kind: SubjectKind,
  value: string,
  mode: Exclude<BanMode, 'watch'>,
  reason: string,
  untilMs: number,
];

export type HeldBan = {
  readonly enforced: boolean;
  readonly untilMs: number;
  readonly reason: string;
  /** Made when first asked for: most bans are never met again. */
  findings?: readonly Finding[];
};

export type BanSet = {
  readonly size: number;
  /** Whether any ban is on subjects of this kind. */
  has(kind: SubjectKind): boolean;
  put(row: BanRow): void;
  remove(subject: Subject): void;
  /** The strictest in force, among the networks that hold the address. */
  ofAddress(ip: string, nowMs: number): HeldBan | undefined;
  of(kind: Exclude<SubjectKind, 'network'>, value: string, nowMs: number): HeldBan | undefined;
  /** Gives the memory of expired ones back. */
  sweep(nowMs: number): void;
};

const BAN_POINTS = 100;

export function createBanSet(): BanSet {
  const networks: CidrMap<HeldBan> = createCidrMap();
  const byText = new Map<string, HeldBan>();
  const counts = new Map<SubjectKind, number>();
  const shift = (kind: SubjectKind, by: number): void => void counts.set(kind, (counts.get(kind) ?? 0) + by);
  let observed: HeldBan | undefined;
  let nowMs = 0;
  const enforced = (ban: HeldBan): boolean => {
    if (ban.untilMs <= nowMs) return false;
    if (!ban.enforced) observed ??= ban;
    return ban.enforced;
  };
  const remove = (subject: Subject): void => {
    if (!byText.delete(textOf(subject.kind, subject.value))) return;
    shift(subject.kind, -1);
    const network = subject.kind === 'network' ? parseNetwork(subject.value) : undefined;
    if (network !== undefined) networks.delete(network);
  };
  return {
    get size() {
      return byText.size;
    },
    has: (kind) => (counts.get(kind) ?? 0) > 0,
    put([kind, value, mode, reason, untilMs]) {
      const network = kind === 'network' ? parseNetwork(value) : undefined;
      if (kind === 'network' && network === undefined) return;
      const ban: HeldBan = { enforced: mode === 'enforce', untilMs, reason };
      const key = textOf(kind, value);
      if (!byText.has(key)) shift(kind, 1);
      byText.set(key, ban);
      if (network !== undefined) networks.set(network, ban);
    },
    remove,
    ofAddress(ip, atMs) {
      if (networks.size === 0) return undefined;
      observed = undefined;
      nowMs = atMs;
      return networks.find(ip, enforced) ?? observed;
    },
    of(kind, value, atMs) {
      const ban = byText.get(textOf(kind, value));
      return ban !== undefined && ban.untilMs > atMs ? ban : undefined;
    },
    sweep(atMs) {
      for (const [key, ban] of byText) if (ban.untilMs <= atMs) remove(subjectOf(key)!);
    },
  };
}

const textOf = (kind: SubjectKind, value: string): string => `${kind}:${value}`;

/** What stage 1 says of a request that the ban meets. */
export function findingsOf(ban: HeldBan): readonly Finding[] {
  return (ban.findings ??= makeFindings(ban));
}

function makeFindings({ enforced, reason, untilMs }: HeldBan): readonly Finding[] {
  const until = new Date(untilMs).toISOString();
  const verb = enforced ? 'Banned' : 'Would be banned';
  const finding: Finding = {
    id: 'BAN',
    kind: 'deny',
    points: BAN_POINTS,
    message: `${verb} until ${until}: ${reason}.`.replace(/\.\.$/, '.'),
    ...(enforced ? {} : { observed: true }),
  };
  return Object.freeze([Object.freeze(finding)]);
}
