/**
 * The book of bans: one in the supervisor's memory (with a file), one in Redis, the same answers from both.
 * The contract, not the work.
 */
import type { Ban, BanEvidence, BanMode, Subject } from './ban.js';

export type BanAsk = Readonly<{
  subject: Subject;
  mode: BanMode;
  reason: string;
  actor: string;
  /** For operators: how long, in milliseconds. Detectors leave it out: it grows with the strikes. */
  durationMs?: number;
  /** For detectors. */
  evidence?: BanEvidence;
}>;

/**
 * `made`; `replaced`: one in force, by an operator or by a more severe one; `same`: as severe a one is in
 * force already, or its evidence is not newer than what was judged before (a topic that is read again);
 * `pardoned`: an operator lifted it, and the evidence begins before that; `full`: no room, and nothing less
 * severe to give way.
 */
export type BanResult = 'made' | 'replaced' | 'same' | 'pardoned' | 'full';
export type BanOutcome = Readonly<{ result: BanResult; ban: Ban | undefined }>;

/** One line of the audit trail. `held-back`: by the blast guard or the allowlist; `restore`: put back by a gate. */
export type AuditEntry = Readonly<{
  timeMs: number;
  what: 'ban' | 'unban' | 'held-back' | 'restore';
  subject: string;
  actor: string;
  reason: string;
  ban?: Ban;
}>;

export type BanChange =
  | Readonly<{ kind: 'added'; version: number; ban: Ban }>
  | Readonly<{ kind: 'removed'; version: number; subject: Subject }>;

export type BanSnapshot = Readonly<{ version: number; bans: readonly Ban[] }>;

export type BanBook = Readonly<{
  /** All that are in force now. Rejects with a Fault where the store is away: never an empty list instead. */
  read(): Promise<BanSnapshot>;
  /** One outcome per ask, in order; each ask is atomic. Rejects with a Fault. */
  ban(asks: readonly BanAsk[]): Promise<readonly BanOutcome[]>;
  /** Answers the ban that was lifted. Residual evidence does not bring it back. Rejects with a Fault. */
  unban(subject: Subject, by: Readonly<{ actor: string; reason: string }>): Promise<Ban | undefined>;
  /** Writes to the audit trail what was not done, and why. */
  note(entry: Omit<AuditEntry, 'timeMs'>): Promise<void>;
  /** The latest `count` entries, newest first. */
  audit(count: number): Promise<readonly AuditEntry[]>;
  close(): Promise<void>;
}>;
