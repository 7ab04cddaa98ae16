/** Stage 3's engine: runs every check, answers what they found. */
import { NO_FINDINGS, type Finding } from '../core/finding.js';
import type { RequestFacts } from '../core/request.js';
import { HEADER_CHECKS } from './checks/index.js';
import type { HeadersConfig } from './config.js';

/** `apiKeyHeader`: name of the header whose bearer counts as an API client. The answer is synchronous. */
export function createHeaderScoring(
  config: HeadersConfig,
  about: Readonly<{ apiKeyHeader?: string }>,
): (facts: RequestFacts) => readonly Finding[] {
  const apiKeyHeader = about.apiKeyHeader?.toLowerCase();
  const checks = HEADER_CHECKS.map((check) => check.create(config, { apiKeyHeader }));
  return (facts) => {
    let found: Finding[] | undefined;
    for (const check of checks) {
      const finding = check(facts);
      if (finding !== undefined) (found ??= []).push(finding);
    }
    return found ?? NO_FINDINGS;
  };
}
