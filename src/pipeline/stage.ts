/**
 * The shape of a stage. A stage reads facts and returns findings; it changes neither request nor response and
 * knows nothing of early exits, deadlines, observe mode or what happens when it throws: run.ts does.
 */
import type { Finding } from '../core/finding.js';
import type { RequestFacts } from '../core/request.js';
import type { StageName } from '../core/event.js';

/**
 * What a stage may read besides the request's head: present in the second pass, when a body was inspected.
 */
export type BodyFacts = Readonly<{
  /** Text value of a JSON leaf (`user.name`) or form field, if the body had one; AMBIGUOUS of several. */
  readonly field: (name: string) => string | undefined;
  findings: readonly Finding[];
  /**
   * True in one pass only, the last before anything of the body goes to the origin: its fields are known as
   * well as they will be.
   */
  identified: boolean;
}>;

export type Stage = Readonly<{
  name: StageName;
  /** A plain value where no I/O is needed, so that the hot path stays synchronous. */
  judge(facts: RequestFacts, body: BodyFacts | undefined): readonly Finding[] | Promise<readonly Finding[]>;
}>;
