import t from 'tap';
import type { Ban } from '../controls/ban.js';
import { printAudit, printBans, printLifted, printMade } from './bans-print.js';

const NOW = Date.parse('2026-11-30T12:00:00Z');
const ban: Ban = {
  id: 'b1',
  subject: { kind: 'network', value: '203.0.113.9' },
  mode: 'enforce',
  reason: 'failed logins on shop POST /login: 290 from 58 addresses within 60 s, 5 each, no one got in at all',
  actor: 'detector:failedLogins',
  sinceMs: NOW - 60_000,
  untilMs: NOW + 840_000,
  strikes: 2,
  evidence: {
    detector: 'failedLogins',
    pattern: 'failed logins on shop POST /login',
    summary: '290 failed logins from 58 addresses within 60 s',
    count: 5,
    firstSeenMs: NOW - 120_000,
    lastSeenMs: NOW - 61_000,
    requestIds: ['r1', 'r2'],
    confidence: 0.97,
  },
};
const told: Ban = { ...ban, subject: { kind: 'session', value: 'abc' }, actor: 'ann@desk', strikes: 0 };

t.test('bans are a table, long reasons cut', async (t) => {
  const text = printBans({ total: 5, bans: [ban, told], notes: ['x'] }, { nowMs: NOW, evidence: false });
  const lines = text.split('\n');
  t.match(lines[0], /^subject +mode +since +until +left +strikes +by +reason$/);
  t.match(lines[1], /^203\.0\.113\.9 +enforce +2026-11-30T11:59:00Z +2026-11-30T12:14:00Z +14 min +2 /);
  t.match(lines[1], / 2 +detector:failedLogins +failed logins on shop/);
  t.match(lines[1], /…$/);
  t.match(lines[2], /^session:abc .* - +ann@desk/);
  t.same(lines.slice(3), ['', 'the latest 2 of 5', 'note: x', '']);
});

t.test('evidence stands below its ban', async (t) => {
  const text = printBans({ total: 1, bans: [ban], notes: [] }, { nowMs: NOW, evidence: true });
  t.match(text, /\n {4}290 failed logins from 58 addresses within 60 s\n/);
  t.match(text, /5 requests of this one, from 2026-11-30T11:58:00Z to 2026-11-30T11:58:59Z\n/);
  t.match(text, /\n {4}such as r1, r2/);
  t.match(text, /confidence 97 %/);
});

t.test('nobody, one made, one lifted', async (t) => {
  const nobody = printBans({ total: 0, bans: [], notes: [] }, { nowMs: NOW, evidence: false });
  t.equal(nobody, 'nobody is banned\n');
  t.equal(
    printMade({ ban: { ...told, mode: 'observe' }, replaced: true, notes: ['all of it'] }, NOW),
    'banned session:abc until 2026-11-30T12:14:00Z (14 min), only observed\n' +
      'it replaces a ban that was in force\nnote: all of it\n',
  );
  t.match(printLifted(told, NOW), /^lifted the ban on session:abc, which had 14 min left \(by ann@desk: /);
});

t.test('the audit trail, and nothing that steers a terminal', async (t) => {
  const by = { subject: 'p', actor: 'a', reason: '\u001b[31mred\u202e' };
  const entry = { timeMs: NOW, what: 'held-back', ...by } as const;
  const text = printAudit([entry, { ...entry, what: 'ban', ban }]);
  t.match(text, /held-back +p +a +�\[31mred�\n/);
  t.match(text, /ban +p +2026-11-30T12:14:00Z/);
  t.equal(printAudit([]), 'nothing was done yet\n');
});
