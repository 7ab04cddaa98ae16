/**
 * The native rules by place: any header name counts, form fields are judged one by one, exceptions cannot be
 * crafted.
 */
import { dirname } from 'node:path';
import { fileURLToPath } from 'node:url';
import t from 'tap';
import { ids, judge } from './fixtures/requests.js';
import type { Request } from './fixtures/requests.js';
import { createRuleEngine, rulesSection } from './index.js';

const engine = createRuleEngine(rulesSection.parse({}), { baseDir: dirname(fileURLToPath(import.meta.url)) });
const XSS = '<script>alert(1)</script>';
const SQLI = "' or 1=1 --";
const STEPS = '../../etc/passwd';
const FENCE =
  '# How to\n\n```sh\nls -la | grep "txt"\ncat notes.txt\n```\n\nThen *select* a row, and `drop` it on the table.';

const header = (name: string, ...values: string[]): Request => ({
  headers: values.map((value) => [name, value] as const),
});
const form = (value: string): Request => ({
  method: 'POST',
  headers: [['Content-Type', 'application/x-www-form-urlencoded']],
  body: `post=${encodeURIComponent(value)}`,
});
const json = (value: string): Request => ({
  method: 'POST',
  headers: [['Content-Type', 'application/json']],
  body: JSON.stringify({ post: value }),
});

const caught: [string, Request, string][] = [
  ...['X-Custom', 'X-Any-Name', 'User-Agent', 'Referer', 'Accept', 'If-None-Match'].flatMap(
    (name): typeof caught => [
      [`a script in ${name}`, header(name, XSS), 'XSS-013'],
      [`a condition in ${name}`, header(name, SQLI), 'SQLI-021'],
      [`steps up in ${name}`, header(name, STEPS), 'TRAV-001'],
    ],
  ),
  ['a script over two lines', header('X-Custom', '<script>alert(1)', '</script>'), 'XSS-013'],
  ['a tag over two lines', header('X-Custom', '<scr', 'ipt>alert(1)'), 'XSS-013'],
  [
    'a sub-select beside everyday words',
    json('1 and (select * from users) -- select one from the list'),
    'SQLI-007',
  ],
  ['steps up beside a source map', json('../../etc/passwd webpack:///src/a.js'), 'TRAV-001'],
  ['a command on the second line of a form field', form('photo.jpg\ncat /etc/passwd'), 'CMDI-002'],
  ['a command after a code fence', form(`${FENCE}\n; cat /etc/passwd`), 'CMDI-002'],
];

t.test('caught in any place', async (t) => {
  for (const [name, request, id] of caught) {
    const found = ids(await judge(engine, request));
    t.ok(found.includes(id), `${name}: ${found.join(' ')}`);
  }
});

const everyday: [string, Request][] = [
  ['a code fence in a form', form(FENCE)],
  ['a code fence in JSON', json(FENCE)],
  ['a code fence first', form('```sh\nls -la\n```')],
  ['a fence with a pipe', form('Try this:\n\n```bash\nps | sort\nls -l\n```\n')],
  ['a stack with a source map', json('at f (webpack-internal:///../../src/a.ts:10:2)')],
  ['a list of ETags', header('If-None-Match', 'W/"abc", "d-e=f"')],
  ['client hints', header('Sec-CH-UA', '"Chromium";v="120", "Not=A?Brand";v="8"')],
  [
    'a digest',
    header('Authorization', 'Digest username="o\'brien", realm="a", uri="/x?y=1", qop=auth, nc=00000001'),
  ],
  ['a trace', header('Traceparent', '00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01')],
];

t.test('everyday text stays below half of the blocking score', async (t) => {
  for (const [name, request] of everyday) {
    const found = await judge(engine, request);
    t.ok(found.reduce((sum, { points }) => sum + points, 0) < 40, `${name}: ${ids(found).join(' ')}`);
  }
});
