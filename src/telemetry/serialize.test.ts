import fc from 'fast-check';
import t from 'tap';
import type { DecisionEvent, Step } from '../core/event.js';
import { redactEvent } from './redact.js';
import { serializeEvent } from './serialize.js';
import { eventFor } from './testing.js';

const step: Step = {
  stage: 'rules',
  before: 0,
  after: 40,
  durationUs: 9,
  findings: [{ id: 'X-1', kind: 'match', points: 40, message: 'm', severity: 2 }],
};

t.test('a line says what the event says', async (test) => {
  const rows: readonly (readonly [string, DecisionEvent])[] = [
    ['an ordinary one', eventFor()],
    ['with every optional field', eventFor({ clientAborted: true, bodyInspection: 'whole', worker: 3 })],
    [
      'with all identities',
      eventFor({ client: { ip: '::1', key: '::/64', apiKey: 'k', user: 'u', session: 's' } }),
    ],
    [
      'what only the correlator reads',
      eventFor({
        client: { ip: '::1', key: '::/64', headerHash: 'aB-_1', ja4: 't13d' },
        delayedMs: 5,
        near: { policy: 'login', by: 'ip', used: 4, limit: 5, windowMs: 60_000 },
      }),
    ],
    ['a pass with rules', eventFor({ ruleIds: ['A', 'B'], steps: [step] })],
    ['a refusal', eventFor({ action: 'block', status: 403, ruleIds: ['X-1'], steps: [step] })],
    ['an observed one', eventFor({ action: 'observe', wouldBe: 'block' })],
    ['a pass that has an error', eventFor({ error: 'reset' })],
    ['a skipped stage', eventFor({ steps: [{ ...step, findings: [], skipped: 'stopped' }] })],
    ['quotes and line ends', eventFor({ path: '/a"\\\n\r\t{"decision":"allow"}', host: '"', method: 'G"T' })],
  ];
  for (const [name, event] of rows) {
    const line = serializeEvent(event);
    test.same(JSON.parse(line), event, name);
    test.equal(JSON.stringify(JSON.parse(line)), line, `${name}: spelled as JSON.stringify does`);
  }
});

t.test('whatever the request holds: one valid line without control characters', async () => {
  const text = fc.string({ unit: 'binary', maxLength: 60 });
  fc.assert(
    fc.property(text, text, text, text, fc.boolean(), (path, query, userAgent, host, quiet) => {
      const client = { ip: '192.0.2.1', key: '192.0.2.1', userAgent };
      const event = eventFor({
        path,
        query,
        host,
        client,
        ...(quiet ? {} : { action: 'block', steps: [step] }),
      });
      for (const line of [serializeEvent(event), serializeEvent(redactEvent(event, 64))]) {
        JSON.parse(line);
        for (const char of line) {
          const code = char.codePointAt(0) ?? 0;
          const escaped = code < 0x20 || (code >= 0x7f && code < 0xa0) || code === 0x2028 || code === 0x2029;
          if (escaped || (code >= 0xd800 && code < 0xe000)) return false;
        }
      }
      return true;
    }),
  );
});
