/** One signal in a request's head. Answers its finding or nothing; never reads the body, never throws. */
import type { Finding } from '../core/finding.js';
import type { RequestFacts } from '../core/request.js';
import type { HeadersConfig } from './config.js';

export type HeaderCheck = Readonly<{
  id: string;
  create(
    config: HeadersConfig,
    about: Readonly<{ apiKeyHeader: string | undefined }>,
  ): (facts: RequestFacts) => Finding | undefined;
}>;
