/** What the reputation engine offers to the pipeline. The contract, not the work. */
import type { Finding } from '../core/finding.js';
import type { ClientFacts } from '../core/request.js';

export type Reputation = {
  /**
   * In memory, O(1), synchronous. At most one `allow` or `deny`, else notes; the strongest note carries the
   * points, the others 0.
   */
  judge(client: ClientFacts): readonly Finding[];
  /** A refusal for cause (never a rate limit, never a challenge) raises the source's observed score. */
  raise(client: ClientFacts, points: number): void;
  asn(ip: string): { number: number; organization: string } | undefined;
  start(): Promise<void>;
  close(): Promise<void>;
};
