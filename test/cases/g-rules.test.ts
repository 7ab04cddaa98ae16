/**
 * G03: everyday text that looks like an attack passes with less than half the blocking score; attacks in its
 * place do not.
 */
import t from 'tap';
import { bench, blocked, FORM, JSON_TYPE, passes, SQLI, XSS } from '../support/case.js';
import { request, type RequestSpec } from '../support/raw-client.js';

const jwt = `eyJhbGciOiJSUzI1NiJ9.${Buffer.from(JSON.stringify({ sub: '1', roles: 'reader '.repeat(280) })).toString('base64url')}.${'c2ln'.repeat(86)}`;
const markdown = [
  '# How to list files',
  '',
  '```sh',
  'ls -la | grep "txt"',
  'cat notes.txt',
  '```',
  '',
  '```js',
  'const a = [1, 2].map((n) => n + 1);',
  '```',
  '',
  'Then *select* a row, and `drop` it on the table.',
].join('\n');
const cookie = (name: string, value: string): RequestSpec => ({
  headers: [['Cookie', `${name}=${value}`]],
});
const field = (name: string, value: string): RequestSpec => ({
  headers: [FORM],
  body: `${name}=${encodeURIComponent(value)}`,
});
const json = (value: unknown): RequestSpec => ({
  headers: [JSON_TYPE],
  body: Buffer.from(JSON.stringify(value)),
});
const query = (text: string): RequestSpec => ({ target: `/?${text}` });

type Slot = { name: string; honest: RequestSpec; hostile: (payload: string) => RequestSpec };

const SLOTS: readonly Slot[] = [
  { name: 'w=100%25', honest: query('w=100%25'), hostile: (p) => query(`w=${encodeURIComponent(p)}`) },
  {
    name: 'a bare percent',
    honest: query('share=91.4%'),
    hostile: (p) => query(`share=${encodeURIComponent(p)}`),
  },
  {
    name: 'parentheses',
    honest: query('t=Keep+left+(2+miles)+then+stop'),
    hostile: (p) => query(`t=${encodeURIComponent(p)}`),
  },
  {
    name: 'Mixpanel cookie',
    honest: cookie('mp_ab', '{"distinct_id":"t","$device_id":"d","$initial_referrer":"https://e.test"}'),
    hostile: (p) => cookie('mp_ab', encodeURIComponent(JSON.stringify({ distinct_id: p }))),
  },
  {
    name: 'Matomo cookie',
    honest: cookie('_pk_ref.1', '["","",1573640000,"https://e.test/"]'),
    hostile: (p) => cookie('_pk_ref.1', encodeURIComponent(JSON.stringify(['', p]))),
  },
  { name: "O'Brien & Söhne", honest: field('name', "O'Brien & Söhne"), hostile: (p) => field('name', p) },
  {
    name: 'SQL words in prose',
    honest: field('text', 'Select the union option from the drop table list'),
    hostile: (p) => field('text', p),
  },
  {
    name: 'JSON in JSON',
    honest: json({ payload: JSON.stringify({ a: [1, 2], b: "it's" }) }),
    hostile: (p) => json({ payload: JSON.stringify({ a: p }) }),
  },
  {
    name: 'gclid',
    honest: query('gclid=EAIaIQobChMI_x-y2e5wIVBE'),
    hostile: (p) => query(`gclid=${encodeURIComponent(p)}`),
  },
  { name: 'a topic pattern', honest: json({ sub: 'topics/*?opts=1' }), hostile: (p) => json({ sub: p }) },
  { name: 'quote and bang', honest: field('note', `'!"`), hostile: (p) => field('note', p) },
  { name: 'Markdown', honest: field('post', markdown), hostile: (p) => field('post', `# Title\n\n${p}`) },
  {
    name: 'an address with a plus',
    honest: query('email=a+b@e.test'),
    hostile: (p) => query(`email=${encodeURIComponent(p)}`),
  },
  {
    name: 'a 3 KiB JWT cookie',
    honest: cookie('token', jwt),
    hostile: (p) => cookie('token', encodeURIComponent(p)),
  },
];

t.test('G03: everyday text passes, attacks in its place do not', async (test) => {
  const at = await bench(test);
  for (const { name, honest, hostile } of SLOTS) {
    const seen = at.gate.decisions.length;
    await passes(test, name, at, honest);
    const event = await at.gate.event((one) => at.gate.decisions.indexOf(one) >= seen);
    test.ok(event.score < 40, `${name}: below half the blocking score`, { score: event.score });
    for (const payload of [SQLI, XSS]) {
      await blocked(test, `${name}: ${payload} in its place`, at, {
        bytes: request(hostile(payload)),
        statuses: [403],
      });
      await at.gate.event((one) => at.gate.decisions.indexOf(one) > seen);
    }
    await settle(at.gate.decisions, seen + 3);
  }
});

async function settle(decisions: readonly unknown[], count: number): Promise<void> {
  for (let n = 0; n < 100 && decisions.length < count; n++) await new Promise((done) => setTimeout(done, 10));
}
