/**
 * Request ids: 8 random characters a process, then a counter. Unique over workers, short in a log line, not
 * guessable in a row.
 */
import { randomBytes } from 'node:crypto';

export function createRequestIds(): () => string {
  const prefix = randomBytes(6).toString('hex');
  let count = randomBytes(3).readUIntBE(0, 3);
  return () => `${prefix}-${(++count).toString(36)}`;
}
