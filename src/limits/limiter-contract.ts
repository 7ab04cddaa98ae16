/** What the limits engine offers to the pipeline, and what a store must do. The contract, not the work. */
import type { Finding } from '../core/finding.js';
import type { RequestFacts } from '../core/request.js';

export type AlgorithmName =
  'fixed-window' | 'sliding-log' | 'sliding-counter' | 'leaky-bucket' | 'token-bucket';

export type Check = Readonly<{
  /** Collision-proof text of bounded length: namespace, policy, hashed or escaped identity. */
  key: string;
  algorithm: AlgorithmName;
  limit: number;
  windowMs: number;
  /** Bucket size for token and leaky buckets; equals `limit` where not given. */
  burst: number;
  cost: number;
  /**
   * `take` (where absent): ask and count. `peek`: ask as if it counted, count nothing. `give`: take `cost`
   * back from what was counted, never below nothing; always allowed.
   */
  op?: 'take' | 'peek' | 'give';
  /**
   * leaky-bucket alone: the longest wait that may be given instead of a refusal. Absent or 0: the bucket only
   * meters, what fits passes at once.
   */
  delayMaxMs?: number;
  /** True where a cache may count it for a moment (`limits.hotKeyCache`); absent: it goes to the store. */
  cached?: boolean;
}>;

export type CheckResult = Readonly<{
  allowed: boolean;
  remaining: number;
  /** Milliseconds until the identity is back at its full allowance. */
  resetMs: number;
  /** 0 when allowed. */
  retryAfterMs: number;
  /** How long the request waits before it goes on; absent: not at all. Only where `delayMaxMs` was given. */
  delayMs?: number;
}>;

/**
 * All checks of one request in one call. All or nothing: when one is refused, none is counted (`give` always
 * is).
 * A store that cannot answer rejects with a Fault; it never answers "allowed" by default.
 */
export type CounterStore = {
  checkAll(checks: readonly Check[]): CheckResult[] | Promise<CheckResult[]>;
  /** Sets keys back to nothing counted; answers how many there were. For operators, not for requests. */
  forget?(keys: readonly string[]): number | Promise<number>;
  close(): Promise<void>;
};

/** What the limits learn from an answer. */
export type Answered = Readonly<{
  /** Of the origin; 0: it gave none (the gate refused, the origin is away, the client left). */
  status: number;
  /** Values of the origin's Set-Cookie fields. */
  setCookies: readonly string[];
}>;

export type LimiterStats = Readonly<{
  /** Counts on answers: under way to the store, dropped since too many were, refused by a broken store. */
  background: Readonly<{ inFlight: number; dropped: number; failed: number }>;
  /** Shared addresses: what is remembered, and how often something had to be forgotten for it. */
  shared: Readonly<{ addresses: number; sessions: number; dropped: number }>;
}>;

export type Limiter = {
  /**
   * Head pass (`field` undefined): every policy whose identity is known from the head.
   * Body pass: only policies that read a body field and were left open by the head pass.
   */
  judge(
    facts: RequestFacts,
    field: ((name: string) => string | undefined) | undefined,
  ): readonly Finding[] | Promise<readonly Finding[]>;
  /**
   * Once for each judged request, when the origin's head is there or it is sure that none will come. Neither
   * waits nor throws.
   */
  answered(facts: RequestFacts, answer: Answered): void;
  stats(): LimiterStats;
};
