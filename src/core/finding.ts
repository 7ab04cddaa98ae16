/** What a stage saw. The runner adds the points up; the decision reads the kinds. */

export type FindingKind =
  /** Adds points or is merely worth writing down. */
  | 'note'
  /** The client is on the allowlist: bans, reputation and limits no longer apply (rules still do). */
  | 'allow'
  /** The client is banned or blocklisted: stop here, 403. */
  | 'deny'
  /** A limit is exceeded. */
  | 'limit'
  /** The request cannot be read in one way only: refuse with `status` (400, 413, 415). */
  | 'malformed'
  /** A rule matched. */
  | 'match';

export type Severity = 1 | 2 | 3 | 4;

export type Evidence = Readonly<{
  /**
   * Where, in one canonical spelling: `query:q`, `path`, `header:referer`, `cookie:sid`, `json:user.name`,
   * `form:a`, `body`.
   */
  target: string;
  /** The normalised text that matched, at most 200 characters around the match. */
  text: string;
  /** Transformations that had to be applied before it matched, outermost first. */
  transformations: readonly string[];
}>;

export type LimitState = Readonly<{
  policy: string;
  /** The identity in words: `ip`, `session`, `ip+path`. Never the secret itself. */
  by: string;
  limit: number;
  windowMs: number;
  remaining: number;
  resetMs: number;
  retryAfterMs: number;
}>;

export type Finding = Readonly<{
  /** Stable, upper case: `TOR-EXIT`, `LIMIT-API`, `UA-EMPTY`, `SQLI-001`. */
  id: string;
  kind: FindingKind;
  /** 0–100, added to the score (which is capped at 100). */
  points: number;
  /** One plain sentence. */
  message: string;
  severity?: Severity;
  /** The rule's class: sqli, xss, traversal … */
  class?: string;
  evidence?: Evidence;
  /** For `malformed` only. */
  status?: 400 | 408 | 413 | 415 | 421 | 429 | 501 | 503 | 505;
  /** True where the rule or policy is in observe mode: written down, decides nothing, adds no points. */
  observed?: boolean;
  limit?: LimitState;
  /** Of a note: how all limits of the request stand (`limits.headers: always`). */
  limits?: readonly LimitState[];
  /** How long a shaping bucket makes the request wait; the longest of all findings holds. */
  delayMs?: number;
}>;

/** What a source earned by its own earlier refusals; of a shared address, by anybody's behind it. */
export const OBSERVED_ID = 'OBSERVED';

export const NO_FINDINGS: readonly Finding[] = Object.freeze([]);
