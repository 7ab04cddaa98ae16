/**
 * The shape of an identity dimension: one way to say who sent a request. Promise: reads only the facts and
 * the field reader, never throws, answers in time linear to what it reads, and passes secrets on only as
 * keyed hashes.
 */
import type { FieldReader, IdentityName } from '../core/identity.js';
import type { RequestFacts } from '../core/request.js';

export type Dimension = Readonly<{
  name: IdentityName;
  /** True where a body field may hold the value. */
  inBody: boolean;
  /** Undefined where the request does not carry this identity (an empty value counts as absent). */
  read(facts: RequestFacts, field: FieldReader | undefined): string | undefined;
  /** Further values, besides the one that `read` answers; at most a few. */
  others?(facts: RequestFacts, field: FieldReader | undefined): readonly string[];
}>;
