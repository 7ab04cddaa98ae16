/**
 * The names under which a request's sender can be counted, and how the engines ask for them. Values never
 * hold a secret.
 */
import type { RequestFacts } from './request.js';

export const IDENTITIES = ['ip', 'wideIp', 'session', 'apiKey', 'user', 'path', 'host', 'site'] as const;
export type IdentityName = (typeof IDENTITIES)[number];

/**
 * What a field reader answers for a field that came with several values, or past the fields that are kept:
 * the origin may read another one than the gate. All such requests count as one user.
 */
export const AMBIGUOUS = '\u0000ambiguous';

/** First text value of a body field; present only once the body was read. */
export type FieldReader = (name: string) => string | undefined;

export type Identities = Readonly<{
  /**
   * Address text, or a keyed hash for whatever could be a secret; undefined where the request does not carry
   * it.
   */
  read(name: IdentityName, facts: RequestFacts, field: FieldReader | undefined): string | undefined;
  /**
   * Further values of it in the same request, bounded: where several fields may name the user, the origin may
   * heed another one than `read` answers.
   */
  others?(name: IdentityName, facts: RequestFacts, field: FieldReader | undefined): readonly string[];
  /** True where a body field may hold it, so that a request with a body has to be read first. */
  inBody(name: IdentityName): boolean;
  /**
   * The session that a Set-Cookie value of the origin hands out, as `read` will name it; undefined for other
   * cookies and for one that is taken away.
   */
  issued(setCookie: string): string | undefined;
}>;
