/**
 * One decision, as it goes to the log, the bus and `tidegate explain`. Versioned: `v` rises when a field
 * changes meaning.
 */
import type { Finding } from './finding.js';
import type { LimitUse } from './observation.js';

export const STAGES = ['reputation', 'limits', 'headers', 'rules', 'decision', 'telemetry'] as const;
export type StageName = (typeof STAGES)[number];

export type Step = Readonly<{
  stage: StageName | 'framing';
  before: number;
  after: number;
  durationUs: number;
  findings: readonly Finding[];
  /** Why the stage did not run: `stopped at reputation`, `no body`, a dependency's fault code … */
  skipped?: string;
}>;

export type Action = 'pass' | 'observe' | 'block' | 'limit' | 'throttle' | 'error';

export type DecisionEvent = {
  v: 1;
  /** ISO 8601, UTC. */
  time: string;
  requestId: string;
  node: string;
  worker: number;
  site: string;
  host: string;
  client: {
    ip: string;
    key: string;
    asn?: number;
    userAgent?: string;
    session?: string;
    apiKey?: string;
    user?: string;
    /** Hash over the names of the header fields in their order: the same client software, the same hash. */
    headerHash?: string;
    /** TLS client fingerprint, where the gate terminates TLS and computes it. */
    ja4?: string;
  };
  method: string;
  /** Without the query; cut to 1 KiB. */
  path: string;
  /** Redacted and cut. */
  query?: string;
  /** Status the client got; 0 when it left before an answer. */
  status: number;
  action: Action;
  /** One sentence: why. */
  reason: string;
  /** In observe mode: what enforcing would have done. */
  wouldBe?: Action;
  ruleIds: string[];
  score: number;
  steps: readonly Step[];
  durationUs: {
    total: number;
    reputation: number;
    limits: number;
    headers: number;
    rules: number;
    decision: number;
  };
  upstream?: { address: string; status: number; durationUs: number; attempts: number; error?: string };
  bytesIn: number;
  bytesOut: number;
  clientAborted?: boolean;
  /** Milliseconds for which the gate made it wait: a shaping limit, or the ladder's throttle. */
  delayedMs?: number;
  /** The limit that is used up most, from 60 % on; absent below. */
  near?: LimitUse;
  /** `whole`, `streamed` or absent: how the body was inspected. */
  bodyInspection?: string;
  error?: string;
};
