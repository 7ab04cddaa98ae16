/** Bans for tests of this folder. */
import type { Ban } from '../controls/ban.js';

export function banOf(value: string, change: Partial<Ban> = {}): Ban {
  return {
    id: `b-${value}`,
    subject: { kind: 'network', value },
    mode: 'enforce',
    reason: 'test',
    actor: 'detector:test',
    sinceMs: 0,
    untilMs: 60_000,
    strikes: 1,
    ...change,
  };
}
