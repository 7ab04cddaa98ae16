/**
 * Whom a ban is for, and what is written down with it. Shared by the gate (which obeys), the correlator and
 * operators (who make them) and the kernel agent (which carries them on).
 */

export const SUBJECT_KINDS = ['network', 'session', 'apiKey', 'ja4', 'headers'] as const;
export type SubjectKind = (typeof SUBJECT_KINDS)[number];

/**
 * `value`: for `network` a canonical address or CIDR (IPv6 never narrower than `ipv6Prefix` of the config),
 * for `session` and `apiKey` the keyed hash as it stands in events, for `ja4` and `headers` the fingerprint.
 */
export type Subject = Readonly<{ kind: SubjectKind; value: string }>;

/**
 * `enforce` refuses at stage 1; `observe` writes down that it would; `watch` only raises the observed score
 * of its network.
 */
export const BAN_MODES = ['enforce', 'observe', 'watch'] as const;
export type BanMode = (typeof BAN_MODES)[number];

/** What a detector saw of one subject; times are event times, milliseconds since the epoch. */
export type BanEvidence = Readonly<{
  detector: string;
  /** The pattern in words, the same for the same attack: `failed logins on shop POST /login`. */
  pattern: string;
  /** One sentence with the counts of the whole pattern. */
  summary: string;
  /** Requests of this subject that belong to it. */
  count: number;
  firstSeenMs: number;
  lastSeenMs: number;
  /** A few of them, at most 5. */
  requestIds: readonly string[];
  /** 0 to 1. */
  confidence: number;
}>;

export type Ban = Readonly<{
  id: string;
  subject: Subject;
  mode: BanMode;
  /** One sentence, shown in events and to operators. */
  reason: string;
  /** `detector:<name>`, or the person. */
  actor: string;
  /** Wall clock, milliseconds. */
  sinceMs: number;
  untilMs: number;
  /** How many times it was banned by detectors within `bans.memory`, this one included; 0 by operators. */
  strikes: number;
  evidence?: BanEvidence;
}>;

/** `kind:value`, the key under which a subject is stored. */
export const subjectKey = ({ kind, value }: Subject): string => `${kind}:${value}`;

/** The subject behind a key, or undefined for text that is none. */
export function subjectOf(key: string): Subject | undefined {
  const colon = key.indexOf(':');
  const kind = SUBJECT_KINDS.find((one) => one === key.slice(0, colon));
  return kind === undefined || colon === key.length - 1 ? undefined : { kind, value: key.slice(colon + 1) };
}
