/** The verdict on one request: the word between the decision stage and whoever carries it out. */
import type { Action } from './event.js';
import type { LimitState } from './finding.js';

/** What the decision stage says and the ladder carries out. */
export type Decision = Readonly<{
  action: Action;
  /** Status for the client when the gate answers itself; 0 for pass, observe and throttle. */
  status: number;
  reason: string;
  ruleIds: readonly string[];
  /** In observe mode: what would have been done. */
  wouldBe?: Action;
  /** Milliseconds the request waits before it goes on (`throttle`). */
  delayMs?: number;
  /** The limit that speaks in RateLimit fields and Retry-After. */
  limit?: LimitState;
  /** One clause: the smallest change that would have turned the verdict. */
  wouldChange?: string;
}>;
