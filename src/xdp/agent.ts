/**
 * The round of the companion's agent: look at the kernel, read the bans, hand over the difference. What
 * cannot be read never empties a list, what the loader could not finish leaves the lists as they were, and
 * what somebody else changed is found in the next round and set right.
 */
import type { Ban } from '../controls/ban.js';
import type { Clock } from '../core/clock.js';
import { describeFault } from '../core/errors.js';
import type { KernelStatus } from './answers.js';
import type { Committed, Loader } from './loader.js';
import { driftIn, END_OFF_MS, type Drift } from './drift.js';
import { createRangeSet } from './ranges.js';
import {
  differenceOf,
  wantedOf,
  type Difference,
  type KernelEntry,
  type RefusedReason,
  type Wanted,
} from './sync.js';

/** Networks that are never blocked, each with the reason that is told, and whether the caps spare it too. */
export type Guarded = readonly Readonly<{ net: string; why: RefusedReason; spared: boolean }>[];

export type AgentLog = (
  level: 'info' | 'warn' | 'error',
  message: string,
  fields?: Readonly<Record<string, unknown>>,
) => void;

export type AgentDeps = Readonly<{
  loader: Loader;
  /**
   * Rejects where the bans cannot be read, or are not believed. `held`: networks that the kernel bans from
   * before this process; empty once it has handed over its own.
   */
  readBans: (held: readonly string[]) => Promise<readonly Ban[]>;
  /** Rejects where it is not known whom to spare. */
  readGuarded: () => Promise<Guarded>;
  clock: Clock;
  /** Milliseconds that no correction of the wall clock moves. */
  steadyMs: () => number;
  log: AgentLog;
}>;

export type AgentSettings = Readonly<{
  widest: Readonly<{ ipv4: number; ipv6: number }>;
  ipv6Prefix: number;
  entriesMax: number;
}>;

export type AgentStats = {
  rounds: number;
  syncs: number;
  /** Rounds that ended early, by what failed. */
  failures: Record<'kernel' | 'bans' | 'guarded' | 'sync', number>;
  /** Wall clock of the last round that left the kernel as wanted; 0 before the first. */
  inStepMs: number;
  /** How long the last sync took. */
  syncMs: number;
  /** Entries that the kernel's lists were off at the last look, and how often they were. */
  drift: number;
  drifts: number;
  /** Entries of the last sync that the kernel did not take. */
  leftOut: number;
  wanted: number;
  allowed: number;
  covered: number;
  refused: Partial<Record<RefusedReason, number>>;
  status: KernelStatus | undefined;
};

export type Agent = Readonly<{
  /** Never rejects; true where the kernel holds what is wanted. Rounds do not overlap. */
  round(): Promise<boolean>;
  /** Resolves when no round runs. */
  idle(): Promise<void>;
  stats(): Readonly<AgentStats>;
}>;

/** What the kernel was given last, as far as this process knows. */
type Applied = Readonly<{
  generation: number;
  bans: ReadonlyMap<string, KernelEntry>;
  allowed: readonly string[];
  /** How much of it was put into force. */
  committed: Committed;
  /** Wall clock less steady clock at that time. */
  offsetMs: number;
}>;

/** In each of so many rounds the lists are compared entry by entry; their sizes in each. */
export const COMPARE_EVERY = 4;
const NAMED_MAX = 5;
const TOLD_AGAIN = 20;
const TROUBLES_MAX = 50;

export function createAgent(settings: AgentSettings, deps: AgentDeps): Agent {
  const stats = freshStats();
  const at: At = {
    settings,
    deps,
    stats,
    applied: undefined,
    bans: undefined,
    named: '',
    troubles: new Map(),
  };
  let running: Promise<boolean> | undefined;
  return {
    round: () => (running ??= work(at).finally(() => (running = undefined))),
    idle: async () => void (await running),
    stats: () => stats,
  };
}

type At = Readonly<{ settings: AgentSettings; deps: AgentDeps; stats: AgentStats }> & {
  applied: Applied | undefined;
  /** As they were read last. */
  bans: readonly Ban[] | undefined;
  /** How often each failure came since it went well, by what failed and why. */
  troubles: Map<string, number>;
  /** The refused that were named last. */
  named: string;
};

async function work(at: At): Promise<boolean> {
  const { deps, stats } = at;
  stats.rounds++;
  const status = await orFailed(at, 'kernel', deps.loader.ensure());
  if (status === undefined) return false;
  stats.status = status;
  const guarded = await orFailed(at, 'guarded', deps.readGuarded());
  if (guarded === undefined) return false;
  const held = await orFailed(at, 'kernel', heldFromBefore(at, status));
  if (held === undefined) return false;
  const read = await orFailed(at, 'bans', deps.readBans(held));
  at.bans = read ?? at.bans ?? (status.bans === 0 ? [] : undefined);
  // Unknown, and the kernel holds some: they stay as they are.
  if (at.bans === undefined) return false;
  return (await bringInStep(at, { bans: at.bans, guarded, status })) && settled(at, read !== undefined);
}

type Round = Readonly<{ bans: readonly Ban[]; guarded: Guarded; status: KernelStatus }>;

/** True where the kernel holds what these bans ask for. */
async function bringInStep(at: At, { bans, guarded, status }: Round): Promise<boolean> {
  const { deps, stats, settings } = at;
  const nowMs = deps.clock.nowMs();
  const wanted = wantedOf(bans, {
    ...settings,
    nowMs,
    protected: createRangeSet(guarded.map(({ net, why }) => [net, why] as const)),
  });
  const spared = guarded.filter((one) => one.spared).map(({ net }) => net);
  const allowed = [...new Set(spared)].sort();
  tellRefused(at, wanted);
  Object.assign(stats, { wanted: wanted.entries.size, allowed: allowed.length, covered: wanted.covered });
  const isDrifted = await lookForDrift(at, status, nowMs);
  const difference = differenceOf(at.applied?.bans ?? NOTHING, wanted.entries);
  if (!isDrifted && isSame(at.applied, difference, allowed)) return true;
  const generation = Math.max(status.generation, at.applied?.generation ?? 0) + 1;
  return handOver(at, { generation, bans: wanted.entries, allowed }, difference);
}

function settled({ stats, deps }: At, isKnown: boolean): boolean {
  if (isKnown) stats.inStepMs = deps.clock.nowMs();
  return isKnown;
}

async function orFailed<T>(
  at: At,
  what: keyof AgentStats['failures'],
  errand: Promise<T>,
): Promise<T | undefined> {
  const { stats, deps } = at;
  try {
    const done = await errand;
    for (const key of at.troubles.keys()) if (key.startsWith(what)) at.troubles.delete(key);
    return done;
  } catch (error) {
    stats.failures[what]++;
    const why = describeFault(error);
    // The same trouble in each round is one line now and then.
    const count = at.troubles.get(what + why) ?? 0;
    if (at.troubles.size > TROUBLES_MAX) at.troubles.clear();
    at.troubles.set(what + why, count + 1);
    if (count % TOLD_AGAIN === 0)
      deps.log('error', FAILED[what], { why, ...(count > 0 ? { rounds: count } : {}) });
    return undefined;
  }
}

/** Networks that the kernel bans from before this process. */
async function heldFromBefore({ deps, applied }: At, { bans }: KernelStatus): Promise<readonly string[]> {
  if (applied !== undefined || bans === 0) return [];
  return (await deps.loader.list()).filter(({ list }) => list === 'ban').map(({ net }) => net);
}

type Next = Pick<Applied, 'generation' | 'bans' | 'allowed'>;

async function handOver(at: At, next: Next, difference: Difference): Promise<boolean> {
  const { deps, stats } = at;
  const started = performance.now();
  const { generation, bans, allowed } = next;
  const done = await orFailed(
    at,
    'sync',
    deps.loader.sync({ generation, bans: [...bans.values()], allowed }),
  );
  // Where it failed, part of it may have arrived; the next round hands over everything again.
  const offsetMs = offsetOf(deps);
  at.applied = done === undefined ? undefined : { ...next, committed: done, offsetMs };
  if (done === undefined) return false;
  stats.syncs++;
  stats.syncMs = performance.now() - started;
  stats.leftOut = done.leftOut + done.refused;
  deps.log(stats.leftOut > 0 ? 'warn' : 'info', 'the kernel has the bans', {
    generation,
    ...difference,
    entries: done.bans,
    allowed: done.allowed,
    ms: Math.round(stats.syncMs),
    ...(done.leftOut === 0 ? {} : { leftOut: done.leftOut }),
    ...(done.refused === 0 ? {} : { refused: done.refused, first: done.named }),
  });
  return true;
}

const FAILED = {
  kernel: 'cannot look at the kernel filter; it stays as it is',
  bans: 'cannot read the bans; those known before stay until they end',
  guarded: 'cannot read whom to spare; the kernel keeps the lists it has',
  sync: 'the loader did not finish; the lists stay as they were, and it is tried again',
} as const;

function freshStats(): AgentStats {
  return {
    rounds: 0,
    syncs: 0,
    failures: { kernel: 0, bans: 0, guarded: 0, sync: 0 },
    inStepMs: 0,
    syncMs: 0,
    drift: 0,
    drifts: 0,
    leftOut: 0,
    wanted: 0,
    allowed: 0,
    covered: 0,
    refused: {},
    status: undefined,
  };
}

/** Counts what is refused and names the first few, once for the same set. */
function tellRefused(at: At, { refused }: Wanted): void {
  at.stats.refused = {};
  for (const { reason } of refused) at.stats.refused[reason] = (at.stats.refused[reason] ?? 0) + 1;
  const now = JSON.stringify(refused.slice(0, NAMED_MAX)) + refused.length;
  if (refused.length > 0 && now !== at.named) {
    at.deps.log('warn', 'some bans are not for the kernel; the gate alone refuses them', {
      count: refused.length,
      first: refused.slice(0, NAMED_MAX).map(({ net, reason }) => `${net} (${reason})`),
    });
  }
  at.named = now;
}

const offsetOf = ({ clock, steadyMs }: AgentDeps): number => clock.nowMs() - steadyMs();

async function lookForDrift(at: At, status: KernelStatus, nowMs: number): Promise<boolean> {
  const { stats, deps, applied } = at;
  stats.drift = 0;
  if (applied === undefined) return false;
  const stepMs = Math.round(offsetOf(deps) - applied.offsetMs);
  if (Math.abs(stepMs) > END_OFF_MS) {
    const message = 'the clock of this machine was set; the ends of all bans are handed over again';
    deps.log('warn', message, { stepMs });
    return true;
  }
  const drift = await driftNow(at, applied, { status, nowMs });
  stats.drift = drift.entries;
  if (drift.entries === 0) return false;
  stats.drifts++;
  deps.log('warn', 'the lists of the kernel are not what was handed over; they are set right', {
    entries: drift.entries,
    generation: status.generation,
    ...(drift.named.length === 0 ? {} : { first: drift.named }),
  });
  return true;
}

type Now = Readonly<{ status: KernelStatus; nowMs: number }>;

async function driftNow(at: At, applied: Applied, { status, nowMs }: Now): Promise<Drift> {
  const off = driftOf(applied, status, nowMs);
  if (off > 0 || at.stats.rounds % COMPARE_EVERY !== 0) return { entries: off, named: [] };
  const listed = await orFailed(at, 'kernel', at.deps.loader.list());
  if (listed === undefined) return { entries: 0, named: [] };
  const { bans, allowed, committed } = applied;
  return driftIn({ bans, allowed, notTaken: committed.leftOut + committed.refused }, listed, nowMs);
}

/** The kernel may have swept what ended since, but nothing else. */
function driftOf({ bans, generation, committed }: Applied, status: KernelStatus, nowMs: number): number {
  let ended = 0;
  for (const { untilMs } of bans.values()) if (untilMs <= nowMs) ended++;
  const tooMany = Math.max(0, status.bans - committed.bans);
  const tooFew = Math.max(0, committed.bans - ended - status.bans);
  const off = tooMany + tooFew + Math.abs(status.allowed - committed.allowed);
  return off === 0 && status.generation !== generation ? 1 : off;
}

const NOTHING: ReadonlyMap<string, KernelEntry> = new Map();

function isSame(
  applied: Applied | undefined,
  { added, changed, removed }: Difference,
  allowed: readonly string[],
): boolean {
  if (applied === undefined || added + changed + removed > 0) return false;
  return applied.allowed.length === allowed.length && allowed.every((net, at) => net === applied.allowed[at]);
}
