import t from 'tap';
import { eventFor } from '../telemetry/testing.js';
import type { Step } from './event.js';
import type { Finding } from './finding.js';
import { observationOf } from './observation.js';

const reputation = (kind: Finding['kind']): Step => ({
  stage: 'reputation',
  before: 0,
  after: 0,
  durationUs: 1,
  findings: [{ id: 'X', kind, points: 0, message: 'm' }],
});

t.test('the refusal tells who refused, also where it is only observed', async (test) => {
  const rows = [
    [{}, 'none'],
    [{ action: 'limit' }, 'limit'],
    [{ action: 'block', ruleIds: ['SQLI-001'] }, 'rules'],
    [{ action: 'block' }, 'score'],
    [{ action: 'block', steps: [reputation('deny')] }, 'ban'],
    [{ action: 'observe', wouldBe: 'block', steps: [reputation('deny')] }, 'ban'],
    [{ action: 'observe', wouldBe: 'limit' }, 'limit'],
    [{ action: 'block', steps: [{ ...reputation('malformed'), stage: 'framing' }] }, 'unread'],
  ] as const;
  for (const [event, refusal] of rows)
    test.equal(observationOf(eventFor(event as never)).refusal, refusal, JSON.stringify(event));
});

t.test('the event and its JSON give the same observation, long fields cut', async (test) => {
  const event = eventFor({ path: '/x'.repeat(4000), steps: [reputation('allow')] });
  const seen = observationOf(event);
  test.equal(seen.path.length, 256);
  test.equal(seen.allowlisted, true);
  test.same(observationOf(JSON.parse(JSON.stringify(event)) as typeof event), seen);
});
