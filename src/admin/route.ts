/** The shape of an admin resource: what it answers to, whether it changes state, and its answer. */
import type { Ban } from '../controls/ban.js';
import type { AuditEntry } from '../controls/ban-book-contract.js';
import type { DecisionEvent } from '../core/event.js';
import type { LimitRow } from '../limits/index.js';

/** One identity as an operator names it (raw secrets, hashed before anything else), and which policies. */
export type LimitsAsk = Readonly<
  Partial<
    Record<'ip' | 'session' | 'key' | 'user' | 'policy' | 'path' | 'method' | 'host' | 'site', string>
  >
>;
export type LimitsShown = Readonly<{ limits: readonly LimitRow[] }>;
/** Whom a ban is for, as an operator names it (raw secrets, hashed before anything else); one of them. */
export type BanTarget = Readonly<Partial<Record<'address' | 'session' | 'key' | 'ja4' | 'headers', string>>>;
/** `for`: a duration such as `1h`. */
export type BanOrder = BanTarget &
  Readonly<{ for: string; reason: string; observe: boolean; force: boolean }>;
/** `notes`: what the operator should know besides. */
export type BanMade = Readonly<{ ban: Ban; replaced: boolean; notes: readonly string[] }>;
/** `bans`: latest first, cut to some thousand; `total`: all in force. */
export type BansShown = Readonly<{ total: number; bans: readonly Ban[]; notes: readonly string[] }>;
/** Who asks: the name given, and the address it came from. */
export type Asker = Readonly<{ actor: string; peer: string }>;

export type AdminState = Readonly<{
  /** Undefined when ready, else why not. */
  notReady(): string | undefined;
  /** How each configured reputation feed stands; none of them holds readiness up. */
  feeds(): readonly unknown[];
  /** Where limits are counted, and whether that works; without it they follow their onFailure. */
  limitStore(): Readonly<{ store: 'embedded' | 'redis'; state: 'ok' | 'degraded'; why?: string }>;
  metrics(): Promise<string>;
  /** Latest first. */
  decisions(): readonly DecisionEvent[];
  controls(): Readonly<Record<string, unknown>>;
  /** Rejects with a Fault; the running config stays. */
  reload(): Promise<void>;
  sites(): readonly string[];
  /** Of one site, or of all without a mode of their own. Until the next reload. Rejects with a Fault. */
  setMode(mode: 'enforce' | 'observe', site: string | undefined): Promise<void>;
  /** Rejects with a Fault: an unknown policy, no address, the store away. */
  limits(ask: LimitsAsk): Promise<LimitsShown>;
  /** Sets them back; answers how they stood. Rejects as `limits` does. */
  resetLimits(ask: LimitsAsk, by: Asker): Promise<LimitsShown>;
  bans(): Promise<BansShown>;
  /** Latest first. Rejects with a Fault where the book is away. */
  banAudit(): Promise<readonly AuditEntry[]>;
  /** Rejects with a Fault: no address, too wide, our own, allowlisted, no room, the book away. */
  ban(order: BanOrder, by: Asker): Promise<BanMade>;
  /** Answers the ban that was lifted. Rejects with a Fault: none is in force, the book away. */
  unban(target: BanTarget, by: Asker & Readonly<{ reason: string }>): Promise<Ban>;
}>;

export type AdminAnswer = Readonly<{ status: number; type: 'json' | 'text'; body: unknown }>;

/** `part`: what the path's group caught; `body`: the JSON value that came, undefined where none did. */
export type AdminAsk = Readonly<{ part: string; body: unknown; peer: string }>;

export type AdminRoute = Readonly<{
  method: 'GET' | 'POST';
  /** One capture group at most. */
  path: RegExp;
  answer(state: AdminState, ask: AdminAsk): AdminAnswer | Promise<AdminAnswer>;
}>;

export function ok(body: unknown): AdminAnswer {
  return { status: 200, type: 'json', body };
}

export function refused(status: number, error: string): AdminAnswer {
  return { status, type: 'json', body: { error } };
}
