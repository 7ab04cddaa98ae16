import fc from 'fast-check';
import t from 'tap';
import type { Finding, FindingKind, LimitState, Severity } from '../core/finding.js';
import { decisionSection } from './config.js';
import { decide } from './decide.js';

const config = decisionSection.parse({});
const tiers = decisionSection.parse({
  ladder: [
    { atScore: 50, rung: 'throttle', delay: '2s' },
    { atScore: 90, rung: 'refuse' },
  ],
});

const of = (kind: FindingKind, more: Partial<Finding> = {}): Finding => ({
  id: `${kind.toUpperCase()}-1`,
  kind,
  points: 0,
  message: `a ${kind}`,
  ...more,
});
const match = (severity: Severity, id = 'SQLI-001'): Finding => of('match', { id, severity });
const limitOf = (policy: string, retryAfterMs: number): Finding => {
  const limit: LimitState = {
    policy,
    by: 'ip',
    limit: 5,
    windowMs: 60_000,
    remaining: 0,
    resetMs: 60_000,
    retryAfterMs,
  };
  return of('limit', { id: `LIMIT-${policy}`, points: 25, limit });
};
const note = of('note', { points: 40 });
const seen = (finding: Finding): Finding => ({ ...finding, observed: true });

type Row = readonly [
  name: string,
  findings: readonly Finding[],
  score: number,
  wanted: readonly [string, number, ...string[]],
];

const ROWS: readonly Row[] = [
  ['nothing found passes', [], 0, ['pass', 0]],
  ['a high score without a match passes', [note], 95, ['pass', 0]],
  ['what cannot be read is refused as 400', [of('malformed')], 0, ['block', 400]],
  ['and with its own status', [of('malformed', { status: 415 })], 0, ['block', 415]],
  [
    'before anything else',
    [match(4), of('deny'), of('malformed', { status: 413 })],
    100,
    ['block', 413, 'SQLI-001'],
  ],
  ['a stage that could not judge is an error', [of('malformed', { status: 503 })], 0, ['error', 503]],
  ['a banned address is refused', [of('deny', { points: 100 })], 100, ['block', 403]],
  ['unless it is allowlisted', [of('allow'), of('deny')], 0, ['pass', 0]],
  ['a match of severity 4 is refused at any score', [match(4)], 0, ['block', 403, 'SQLI-001']],
  [
    "a weak match at an address with other people's record passes",
    [of('note', { id: 'OBSERVED', points: 80 }), match(2)],
    85,
    ['pass', 0, 'SQLI-001'],
  ],
  [
    'a firm one is refused there',
    [of('note', { id: 'OBSERVED', points: 80 }), match(3)],
    95,
    ['block', 403, 'SQLI-001'],
  ],
  ['also from an allowlisted address', [of('allow'), match(4)], 0, ['block', 403, 'SQLI-001']],
  ['a lesser match at 80 is refused', [match(1)], 80, ['block', 403, 'SQLI-001']],
  ['a lesser match at 79 passes, named', [match(3)], 79, ['pass', 0, 'SQLI-001']],
  ['over the limit without a match: 429', [limitOf('api', 1000)], 25, ['limit', 429]],
  ['never 403 for a limit, whatever the score', [limitOf('api', 1000), note], 100, ['limit', 429]],
  [
    'over the limit with a lesser match below 80: 429',
    [limitOf('api', 1000), match(2)],
    60,
    ['limit', 429, 'SQLI-001'],
  ],
  [
    'over the limit with a match at 80: 403',
    [limitOf('api', 1000), match(2)],
    80,
    ['block', 403, 'SQLI-001'],
  ],
  ['over the limit with severity 4: 403', [limitOf('api', 1000), match(4)], 30, ['block', 403, 'SQLI-001']],
  ['an allowlisted address has no limit', [of('allow'), limitOf('api', 1000)], 25, ['pass', 0]],
  ['two matches are both named', [match(1), match(4, 'XSS-1')], 20, ['block', 403, 'SQLI-001', 'XSS-1']],
  ['a match in observe mode decides nothing', [seen(match(4))], 90, ['pass', 0]],
  ['a limit in observe mode decides nothing', [seen(limitOf('api', 1))], 0, ['pass', 0]],
  ['a ban in observe mode decides nothing', [seen(of('deny'))], 0, ['pass', 0]],
  ['an observed allow lifts no ban', [seen(of('allow')), of('deny')], 0, ['block', 403]],
];

t.test('from findings to a decision', async (test) => {
  for (const [name, findings, score, [action, status, ...ruleIds]] of ROWS) {
    const got = decide(findings, score, { config, observe: false });
    test.match(got, { action, status }, name);
    test.same(got.ruleIds, ruleIds, `${name}: rules`);
    test.ok(got.reason.length > 3, `${name}: says why`);
    if (status !== 0 && status !== 400 && action !== 'error' && !got.reason.startsWith('a malformed')) {
      test.ok(got.wouldChange !== undefined, `${name}: says what would have changed it`);
    }
  }
});

t.test('observe mode refuses nothing and says what it would have done', async (test) => {
  for (const [name, findings, score, [action]] of ROWS) {
    const got = decide(findings, score, { config, observe: true });
    test.equal(got.status, 0, name);
    test.equal(got.action, action === 'pass' ? 'pass' : 'observe', name);
    test.equal(got.wouldBe, action === 'pass' ? undefined : action, name);
  }
});

t.test('the limit with the longest wait speaks', async (test) => {
  const findings = [limitOf('a', 500), limitOf('b', 9000), limitOf('c', 700)];
  test.match(decide(findings, 25, { config, observe: false }), {
    limit: { policy: 'b' },
    wouldChange: /9 s.*b/,
  });
});

t.test('the ladder answers a score alone, highest tier first', async (test) => {
  const rows = [
    { score: 49, want: { action: 'pass', status: 0 } },
    { score: 50, want: { action: 'throttle', status: 0, delayMs: 2000 } },
    { score: 89, want: { action: 'throttle', delayMs: 2000 } },
    { score: 90, want: { action: 'block', status: 403 } },
  ];
  for (const { score, want } of rows) {
    test.match(decide([note], score, { config: tiers, observe: false }), want, String(score));
  }
  const allowed = decide([of('allow')], 0, { config: tiers, observe: false });
  test.equal(allowed.action, 'pass');
});

t.test('the longest wait holds, whoever asks for it; a refusal or an allowlist ends it', async (test) => {
  const wait = (delayMs: number): Finding => of('note', { id: `DELAY-${delayMs}`, delayMs });
  const judged = (findings: readonly Finding[], score = 0, settings = config) =>
    decide(findings, score, { config: settings, observe: false });
  test.match(judged([wait(300), wait(900), wait(100)]), { action: 'throttle', status: 0, delayMs: 900 });
  test.match(judged([wait(900)], 60, tiers), { delayMs: 2000, reason: /ladder/ }, 'the ladder asks for more');
  test.match(judged([wait(3000)], 60, tiers), { delayMs: 3000 }, 'the limit asks for more');
  const over = judged([wait(900), limitOf('api', 1000)]);
  test.match(over, { action: 'limit', status: 429, delayMs: undefined });
  test.match(judged([wait(900), match(4)]), { action: 'block', status: 403, delayMs: undefined });
  test.match(judged([wait(900), of('allow')]), { action: 'pass', delayMs: undefined });
  test.match(judged([seen(wait(900))]), { action: 'pass', delayMs: undefined }, 'observed it holds nobody');
  const watched = decide([wait(900)], 0, { config, observe: true });
  test.match(watched, { action: 'observe', wouldBe: 'throttle', delayMs: undefined });
});

const kinds: readonly FindingKind[] = ['note', 'allow', 'deny', 'limit', 'malformed', 'match'];
const anyFinding = fc.record({
  id: fc.constantFrom('A', 'B', 'C'),
  kind: fc.constantFrom(...kinds),
  points: fc.integer({ min: 0, max: 100 }),
  message: fc.constant('m'),
  severity: fc.constantFrom<Severity>(1, 2, 3, 4),
});

t.test('observed findings never change a decision', async () => {
  fc.assert(
    fc.property(
      fc.array(anyFinding),
      fc.array(anyFinding),
      fc.integer({ min: 0, max: 100 }),
      (real, extra, score) => {
        const alone = decide(real, score, { config: tiers, observe: false });
        const mixed = decide([...extra.map(seen), ...real, ...extra.map(seen)], score, {
          config: tiers,
          observe: false,
        });
        return JSON.stringify(alone) === JSON.stringify(mixed);
      },
    ),
  );
});

t.test('nothing but a rule, a list, a ladder tier or unreadable input refuses', async () => {
  fc.assert(
    fc.property(fc.array(anyFinding), fc.integer({ min: 0, max: 100 }), (findings, score) => {
      const got = decide(findings, score, { config, observe: false });
      const has = (kind: FindingKind): boolean => findings.some((finding) => finding.kind === kind);
      if (got.status === 403) return has('match') || has('deny');
      if (got.status === 429) return has('limit') && !has('allow');
      return got.status === 0 || has('malformed');
    }),
  );
});
