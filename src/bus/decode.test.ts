import fc from 'fast-check';
import t from 'tap';
import { observationOf } from '../core/observation.js';
import { eventFor } from '../telemetry/testing.js';
import { serializeEvent } from '../telemetry/serialize.js';
import { decodeMessage, decodeText } from './decode.js';

const NOW = Date.parse('2026-01-02T03:04:06.000Z');
const good = eventFor({ near: { policy: 'login', by: 'ip', used: 4, limit: 5, windowMs: 60_000 } });

t.test('an event is read as the correlator would see it in the process', async (test) => {
  const refused = eventFor({ action: 'block', ruleIds: ['A'], client: { ip: '::1', key: '::/64' } });
  for (const event of [good, refused]) {
    const value = Buffer.from(serializeEvent(event));
    test.same(decodeMessage(value, NOW), observationOf(event));
  }
});

t.test('what is no event is refused by its cause', async (test) => {
  const { client } = good;
  const rows: readonly (readonly [string, unknown])[] = [
    ['version', { ...good, v: undefined }],
    ['version', { ...good, v: '1' }],
    ['shape', []],
    ['shape', null],
    ['shape', 1],
    ['shape', { ...good, time: 'yesterday' }],
    ['shape', { ...good, time: 5 }],
    ['shape', { ...good, requestId: {} }],
    ['shape', { ...good, status: null }],
    ['shape', { ...good, status: -1 }],
    ['shape', { ...good, client: [] }],
    ['shape', { ...good, client: { ...client, key: '' } }],
    ['shape', { ...good, client: { ...client, asn: '5' } }],
    ['shape', { ...good, client: { ...client, session: 5 } }],
    ['shape', { ...good, ruleIds: 'x' }],
    ['shape', { ...good, steps: {} }],
    ['shape', { ...good, steps: [null] }],
    ['shape', { ...good, steps: [{ stage: 'reputation', findings: [1] }] }],
    ['shape', { ...good, upstream: { status: 'x' } }],
    ['shape', { ...good, near: { ...good.near, used: '4' } }],
    ['future', { ...good, time: '2026-01-02T03:06:00.000Z' }],
    ['other', { v: 1, kind: 'kernel', source: '203.0.113.7', what: 'syn' }],
    ['future', { ...good, time: '+275760-09-13T00:00:00.000Z' }],
  ];
  for (const [reject, value] of rows) {
    const text = JSON.stringify(value);
    test.equal(decodeText(text, NOW), reject, text.slice(0, 80));
  }
  test.equal(decodeText('{"v":1', NOW), 'not-json');
  test.equal(decodeText(JSON.stringify(good).replace('"used":4', '"used":1e999'), NOW), 'shape');
  test.equal(decodeMessage(null, NOW), 'not-json');
  test.equal(decodeMessage(Buffer.alloc(2 * 1024 ** 2, 0x20), NOW), 'too-large');
  const at = (time: string): unknown => decodeText(JSON.stringify({ ...good, time }), NOW);
  test.not(at('2026-01-02T03:04:26.000Z'), 'future', 'clocks differ a little');
  test.equal(at('2026-01-02T03:04:26.001Z'), 'future');
});

t.test('hostile texts arrive cut and cleaned, names of prototypes as plain text', async (test) => {
  const hostile = {
    ...good,
    site: '__proto__',
    path: `/\u001b[2J\r\n${'p'.repeat(500_000)}`,
    client: { ...good.client, userAgent: `a\u0000\ud800${'b'.repeat(9_999)}`, session: 'constructor' },
  };
  const text = JSON.stringify(hostile).replace('"v":1', '"v":1,"__proto__":{"status":500}');
  const read = decodeText(text, NOW);
  if (typeof read === 'string') return test.fail(read);
  test.equal(read.site, '__proto__');
  test.equal(read.session, 'constructor');
  test.equal(read.path.length, 256);
  test.match(read.path, /^\/·\[2J··ppp/);
  test.equal(read.userAgent.slice(0, 4), 'a··b');
  test.equal(read.status, 200);
});

t.test('never throws, whatever the text', async () => {
  const oneOrOther = (value: unknown) => fc.oneof(fc.constant(value), fc.anything());
  const fields = Object.entries(good).map(([key, value]) => [key, oneOrOther(value)] as const);
  const odd = fc.record(Object.fromEntries(fields));
  const text = fc.oneof(fc.string(), fc.json(), odd.map(toJson));
  fc.assert(
    fc.property(text, (value) => {
      decodeText(value, NOW);
    }),
  );
});

function toJson(value: unknown): string {
  try {
    return JSON.stringify(value) ?? '';
  } catch {
    return '{}';
  }
}
