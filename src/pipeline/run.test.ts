import t from 'tap';
import { decisionSection } from '../decision/config.js';
import type { Fault } from '../core/errors.js';
import type { Finding } from '../core/finding.js';
import type { RequestFacts } from '../core/request.js';
import { pipelineSection } from './config.js';
import { createPipeline, scoreOf, stepsOf, type PipelineSettings } from './run.js';
import type { Stage } from './stage.js';

const facts = { site: 'app', unknownHost: false } as RequestFacts;
const NAMES = ['reputation', 'limits', 'headers', 'rules'] as const;
const note = (id: string, points: number): Finding => ({ id, kind: 'note', points, message: id });
const match = (severity: 1 | 2 | 3 | 4): Finding => ({
  id: 'R-1',
  kind: 'match',
  points: 10,
  severity,
  message: 'r',
});

type Answers = Partial<Record<(typeof NAMES)[number], Finding[] | Promise<Finding[]> | Error>>;

function build(answers: Answers, over: Partial<PipelineSettings> = {}) {
  const ran: string[] = [];
  const faults: Fault[] = [];
  const stages: Stage[] = NAMES.map((name) => ({
    name,
    judge() {
      ran.push(name);
      const answer = answers[name] ?? [];
      if (answer instanceof Error) throw answer;
      return answer;
    },
  }));
  const pipeline = createPipeline(stages, {
    pipeline: pipelineSection.parse({ deadline: 20 }),
    decision: decisionSection.parse({}),
    observes: () => false,
    refuseUnknownHost: true,
    onFault: (fault) => void faults.push(fault),
    ...over,
  });
  return { pipeline, ran, faults, run: pipeline.open(facts) };
}

t.test('nothing found passes without a promise', async (t) => {
  const { pipeline, run, ran } = build({});
  const decision = pipeline.head(run);
  t.notOk(decision instanceof Promise);
  t.match(decision, { action: 'pass', status: 0 });
  t.same(ran, NAMES);
});

t.test('a banned address stops at stage 1 and touches no other', async (t) => {
  const { pipeline, run, ran } = build({
    reputation: [{ id: 'BLOCKLIST', kind: 'deny', points: 100, message: 'b' }],
  });
  t.match(pipeline.head(run), { action: 'block', status: 403 });
  t.same(ran, ['reputation']);
  t.match(stepsOf(run, NAMES), [{ after: 100 }, { skipped: 'stopped at reputation' }, {}, {}]);
});

t.test('points add up in pipeline order and stop at 100', async (t) => {
  const { pipeline, run } = build({
    reputation: [note('TOR-EXIT', 70)],
    limits: Promise.resolve([{ id: 'LIMIT-LOGIN', kind: 'limit', points: 25, message: 'l' }]),
    headers: [note('UA-AUTOMATION', 30), note('ACCEPT-MISSING', 15)],
    rules: [match(4)],
  });
  t.match(await pipeline.head(run), { action: 'block', status: 403, ruleIds: ['R-1'] });
  t.same(
    stepsOf(run, NAMES).map((step) => [step.before, step.after]),
    [
      [0, 70],
      [70, 95],
      [95, 100],
      [100, 100],
    ],
  );
});

t.test('what the body shows later joins its stage', async (t) => {
  const { pipeline, run } = build({ limits: [note('BURST', 0)] });
  t.match(await pipeline.head(run), { action: 'pass' });
  run.found[3] = [match(4)];
  t.match(await pipeline.body(run, { findings: [], field: () => undefined, identified: true }), {
    action: 'block',
    status: 403,
  });
});

t.test('observing refuses nothing and says what it would have done', async (t) => {
  const { pipeline, run } = build({ rules: [match(4)] }, { observes: () => true });
  t.match(await pipeline.head(run), { action: 'observe', status: 0, wouldBe: 'block' });
});

t.test('a broken stage follows onFailure', async (t) => {
  const passed = build({ reputation: new Error('boom') });
  t.match(await passed.pipeline.head(passed.run), { action: 'pass' });
  t.match(passed.faults, [{ code: 'STAGE_FAILED' }]);
  const refused = build({ rules: new Error('boom') });
  t.match(await refused.pipeline.head(refused.run), { status: 503 });
  const late = build({ limits: new Promise(() => undefined) });
  t.match(await late.pipeline.head(late.run), { action: 'pass' });
  t.match(late.faults, [{ code: 'STAGE_DEADLINE' }]);
});

t.test('an unknown host is judged first and misdirected then', async (t) => {
  const unknown = { ...facts, unknownHost: true } as RequestFacts;
  const { pipeline, ran } = build({});
  t.match(await pipeline.head(pipeline.open(unknown)), { action: 'block', status: 421 });
  t.same(ran, NAMES);
  const banned = build({ reputation: [{ id: 'BLOCKLIST', kind: 'deny', points: 100, message: 'b' }] });
  t.match(await banned.pipeline.head(banned.pipeline.open(unknown)), { status: 403 });
});

t.test('observed findings carry no points', async (t) => {
  t.equal(scoreOf([{ ...match(3), observed: true }, note('A', 7)]), 7);
});
