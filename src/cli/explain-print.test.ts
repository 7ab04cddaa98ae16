/** The explanation of the attack from the design, and of log lines that are odd. */
import t from 'tap';
import type { DecisionEvent } from '../core/event.js';
import { explainEvent, wouldBeWritten, wouldHaveChanged } from './explain-print.js';

const event: DecisionEvent = {
  v: 1,
  time: '2026-11-30T07:00:00.000Z',
  requestId: '01HF',
  node: 'n',
  worker: 1,
  site: 'shop',
  host: 'shop.example.com',
  client: { ip: '185.220.101.45', key: '185.220.101.45', asn: 60729, userAgent: 'python-requests/2.28.0' },
  method: 'POST',
  path: '/api/login',
  status: 403,
  action: 'block',
  reason: 'rule SQLI-001 of severity 4 matched',
  ruleIds: ['SQLI-001'],
  score: 100,
  steps: [
    {
      stage: 'reputation',
      before: 0,
      after: 70,
      durationUs: 3,
      findings: [{ id: 'TOR-EXIT', kind: 'note', points: 70, message: 'the address is a Tor exit' }],
    },
    {
      stage: 'limits',
      before: 70,
      after: 95,
      durationUs: 8,
      findings: [
        {
          id: 'LIMIT-LOGIN',
          kind: 'limit',
          points: 25,
          message: 'over the limit',
          limit: {
            policy: 'login',
            by: 'ip',
            limit: 5,
            windowMs: 60_000,
            remaining: 0,
            resetMs: 60_000,
            retryAfterMs: 41_200,
          },
        },
      ],
    },
    {
      stage: 'headers',
      before: 95,
      after: 100,
      durationUs: 2,
      findings: [{ id: 'UA-AUTOMATION', kind: 'note', points: 30, message: 'an automation library' }],
    },
    {
      stage: 'rules',
      before: 100,
      after: 100,
      durationUs: 12_345,
      findings: [
        {
          id: 'SQLI-001',
          kind: 'match',
          points: 80,
          severity: 4,
          message: 'an SQL tautology',
          evidence: {
            target: 'json:username',
            text: "admin' or '1'='1' --\u001b[2J",
            transformations: ['json', 'lower'],
          },
        },
      ],
    },
    { stage: 'decision', before: 100, after: 100, durationUs: 1, findings: [] },
  ],
  durationUs: { total: 12_400, reputation: 3, limits: 8, headers: 2, rules: 12_345, decision: 1 },
  bytesIn: 60,
  bytesOut: 20,
};

const text = explainEvent(event);
const wanted: [name: string, pattern: RegExp][] = [
  ['the request stands first', /^POST \/api\/login\n/],
  ['the client with its network', /client: 185\.220\.101\.45, AS60729, "python-requests/],
  ['score before and after', /reputation +3 µs {3}0 → 70\n/],
  ['points of each finding', /TOR-EXIT \+70: the address is a Tor exit/],
  ['the limit and when it is free again', /policy login by ip: 5 in 60 s, 0 left, free again in 41\.2 s/],
  ['that the score is capped', /95 → 100 \(capped\)/],
  [
    'the normalised text, its place and the way there',
    /in json:username: admin' or '1'='1' --\\x1b\[2J, after json → lower/,
  ],
  ['the sixth stage', /telemetry +- {3}after the answer: logged and counted; notable, shown under/],
  ['the verdict', /verdict: block with 403, score 100, 12\.4 ms in all/],
  ['what would have changed it', /what would have changed it: none of SQLI-001 matching/],
];
for (const [name, pattern] of wanted) t.match(text, pattern, `it shows ${name}`);
t.notMatch(text, /\u001b/, 'control characters of the request do not reach the terminal');
t.match(
  explainEvent(event, { wouldChange: 'x', nth: 6 }),
  /number 6[^]*changed it: x\n/,
  "the decision's own words are preferred",
);

t.match(explainEvent({ ...event, action: 'pass' }), /telemetry .*logged and counted; not notable\n/);
t.match(wouldBeWritten({ ...event, action: 'pass' }, true), /would be logged and counted; not notable$/);
t.match(wouldBeWritten({ ...event, action: 'pass' }, false), /counted only, since log\.passed is false/);
t.match(wouldBeWritten(event, false), /would be logged and counted; notable/);

const skipped: DecisionEvent = {
  ...event,
  steps: [
    {
      stage: 'limits',
      before: 100,
      after: 100,
      durationUs: 0,
      findings: [],
      skipped: 'stopped at reputation',
    },
  ],
};
t.match(
  explainEvent(skipped),
  /limits +- {3}not run: stopped at reputation/,
  'stages that did not run say why',
);
t.equal(
  wouldHaveChanged({ ...event, action: 'pass' }),
  undefined,
  'nothing is missing from a request that passed',
);
for (const [kind, pattern] of [
  ['malformed', /without what X names/],
  ['deny', /allowlist/],
  ['limit', /within X/],
] as const) {
  const finding = { id: 'X', kind, points: 0, message: '' };
  const one = { ...event, steps: [{ ...event.steps[0]!, findings: [finding] }] };
  t.match(wouldHaveChanged(one), pattern, `${kind} has its clause`);
}
