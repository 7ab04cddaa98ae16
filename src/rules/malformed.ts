/** A body that cannot be read in one way only, as a finding. */
import type { Finding } from '../core/finding.js';

export function malformed(id: string, status: 400 | 413 | 415, message: string): Finding {
  return { id, kind: 'malformed', points: 0, message, status };
}
