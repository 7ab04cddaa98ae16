import t from 'tap';
import type { Ban } from '../controls/ban.js';
import { testEngine } from '../correlator/testing-engine.js';
import { printReplay } from './replay-print.js';

const ban = (n: number, given: Partial<Ban> = {}): Ban => ({
  id: `b${n}`,
  subject: { kind: 'network', value: `192.0.2.${n}` },
  mode: 'enforce',
  reason: '290 failed logins from 58 addresses',
  actor: 'detector:failedLogins',
  sinceMs: Date.parse('2026-03-01T10:05:00Z') + n * 1_000,
  untilMs: Date.parse('2026-03-01T10:20:00Z') + n * 1_000,
  strikes: 1,
  evidence: {
    detector: 'failedLogins',
    pattern: 'failed logins on shop POST /login',
    summary: '',
    count: 5,
    firstSeenMs: 0,
    lastSeenMs: 0,
    requestIds: ['r1'],
    confidence: 0.93,
  },
  ...given,
});

t.test('a report groups bans by pattern and shows nothing that could steer a terminal', async (test) => {
  const { engine } = testEngine();
  const bans = [...Array.from({ length: 12 }, (_, n) => ban(n)), ban(50, { mode: 'watch' })];
  const text = printReplay({
    source: 'a.log',
    lines: 20,
    notes: 1,
    outside: 2,
    poison: [{ line: 7, cause: 'not-json', text: 'x' }],
    stats: { ...engine.stats(), rejected: { ...engine.stats().rejected, 'not-json': 1 } },
    bans,
    held: [{ timeMs: 0, what: 'held-back', subject: 'p\u001b[31m', actor: 'a', reason: 'too many' }],
    firstMs: Date.parse('2026-03-01T10:00:00Z'),
    lastMs: Date.parse('2026-03-01T11:00:00Z'),
  });
  for (const wanted of [
    'a.log: 20 lines, 0 events from 2026-03-01T10:00:00.000Z to 2026-03-01T11:00:00.000Z (1 h)',
    'outside 2',
    'line 7: not-json  x',
    'failedLogins: failed logins on shop POST /login\n  12 would have been banned, first at 2026-03-01T10:05',
    '290 failed logins from 58 addresses (confidence 0.93)',
    'for 15 min  network:192.0.2.0  5 requests, such as r1',
    'and 2 more (--json)',
    '1 would have had their observed score raised',
    'p·[31m: too many',
  ])
    test.match(text, wanted);
  const quiet = printReplay({
    ...{ source: '-', lines: 0, notes: 0, outside: 0, poison: [], stats: engine.stats(), bans: [], held: [] },
    ...{ firstMs: undefined, lastMs: undefined },
  });
  test.match(quiet, 'Nobody would have been banned.');
});
