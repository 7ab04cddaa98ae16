/** What the rules engine offers to the pipeline and the proxy: the contract, not the work. */
import type { Finding } from '../core/finding.js';
import type { RequestFacts } from '../core/request.js';

export type MaybePromise<T> = T | Promise<T>;

/** Who waits for the findings of a body. */
export type BodyWatch = Readonly<{
  /** Hears at once of what long work brings to light; false ends the work, the rest stays unread. */
  found(findings: readonly Finding[]): Promise<boolean>;
  /** True once nobody waits any more. */
  gone(): boolean;
}>;

export type BodyInspector = {
  /**
   * `whole`: nothing may be forwarded before `end` (structured bodies: JSON, form, XML, text, unknown).
   * `stream`: what was written may be forwarded once `write` has answered (multipart, binary). May turn from
   * `whole` to `stream` after the first write, when the first bytes told what the body is; never back.
   */
  readonly mode: 'whole' | 'stream';
  /**
   * Takes decoded bytes in order; answers what they brought to light. Yields to the event loop on large
   * input.
   */
  write(chunk: Buffer): MaybePromise<readonly Finding[]>;
  /** Bytes as they were sent, where `write` gets them decoded: an origin may ignore Content-Encoding. */
  raw(chunk: Buffer): MaybePromise<readonly Finding[]>;
  /** No more bytes: parses what was held, answers the rest. */
  end(): MaybePromise<readonly Finding[]>;
  /** After `end`: first text value of a JSON leaf (`user.name`) or form/multipart field. */
  field(name: string): string | undefined;
};

/** What could not be done in one go, since the process began; the caller owns the record. */
export type RuleCounts = {
  /** Pattern sets that outgrew their memory and were split. */
  setOverflows: number;
  /** Values with more forms than `rules.variantsMax` or `rules.decodeDepth` allow; each is a match. */
  formsCut: number;
  /** Requests refused as they asked for more work than `rules.workMax`. */
  workCut: number;
};

export type RuleEngine = {
  /** Query, path, headers, cookies. Synchronous. */
  inspectHead(facts: RequestFacts): readonly Finding[];
  /** With a watch, findings that it was told are not answered again. */
  openBody(facts: RequestFacts, watch?: BodyWatch): BodyInspector;
  readonly ruleCount: number;
};
