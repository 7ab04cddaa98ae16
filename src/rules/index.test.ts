import t from 'tap';
import { AMBIGUOUS } from '../core/identity.js';
import { bytesOf, engineOf, factsOf, ids, judge } from './fixtures/requests.js';
import type { Request } from './fixtures/requests.js';

const engine = engineOf();
const post = (type: string | undefined, body: string | Buffer, more: Partial<Request> = {}): Request => ({
  method: 'POST',
  headers: type === undefined ? [] : [['Content-Type', type]],
  body,
  ...more,
});
const json = (body: string): Request => post('application/json', body);
const part = (head: string, value: string): Request =>
  post('multipart/form-data; boundary=bb', `--bb\r\n${head}\r\n\r\n${value}\r\n--bb--\r\n`);
const SQLI = "' or 1=1 --";
const XSS = '<script>alert(1)</script>';
const OVERLONG = '\xc0\xae\xc0\xae\xc0\xaf\xc0\xae\xc0\xae\xc0\xafetc/passwd';
const overlong3 = OVERLONG.replaceAll('\xc0', '\xe0\x80');
const overlong4 = OVERLONG.replaceAll('\xc0', '\xf0\x80\x80');

const caught: [string, Request, string][] = [
  [
    'an unquoted name with a single quote is malformed',
    part(`Content-Disposition: form-data; name=a'; filename="'; name=q; x="`, SQLI),
    'MULTIPART-MALFORMED',
  ],
  [
    'a value with filename* is judged as a field',
    part(`Content-Disposition: form-data; name="q"; filename*=UTF-8''`, SQLI),
    'SQLI-901',
  ],
  [
    'a UTF-7 part is refused',
    part(
      'Content-Disposition: form-data; name="q"\r\nContent-Type: text/plain; charset=utf-7',
      '+ACc- or 1+AD0-1 --',
    ),
    'MULTIPART-ENCODING',
  ],
  [
    'a base64 part is refused',
    part('Content-Disposition: form-data; name="q"\r\nContent-Transfer-Encoding: base64', 'JyBvciAxPTEgLS0='),
    'MULTIPART-ENCODING',
  ],
  ['a multipart field is judged', part('Content-Disposition: form-data; name="q"', SQLI), 'SQLI-901'],
  [
    'a file name is judged',
    part('Content-Disposition: form-data; name="f"; filename="a.php"', 'x'),
    'FILE-901',
  ],
  [
    'a file is judged by file rules',
    part('Content-Disposition: form-data; name="f"; filename="a.txt"', 'xx<?php phpinfo();'),
    'FILE-902',
  ],
  [
    'a body that ends early is malformed',
    post('multipart/form-data; boundary=bb', '--bb\r\nContent-Disposition: form-data; name="q"\r\n\r\nx'),
    'MULTIPART-MALFORMED',
  ],
  [
    'a multipart type without boundary is malformed',
    post('multipart/form-data', 'xx'),
    'MULTIPART-MALFORMED',
  ],
  [
    'a field under another boundary than declared is judged',
    post(
      'multipart/form-data; boundary=cc',
      `--bb\r\nContent-Disposition: form-data; name="q"\r\n\r\n${SQLI}\r\n--bb--\r\n`,
    ),
    'SQLI-901',
  ],
  [
    'a declared boundary inside a file of another is malformed',
    post(
      'multipart/form-data; boundary=cc',
      `--bb\r\nContent-Disposition: form-data; name="q"; filename="a"\r\n\r\n\r\n--cc\r\nx\r\n--cc--\r\n--bb--\r\n`,
    ),
    'MULTIPART-MALFORMED',
  ],
  ['JSON without a type is parsed', post(undefined, `{"q":"${XSS}"}`), 'XSS-901'],
  [
    'multipart under a mangled header name is sniffed',
    post(undefined, `--bb\r\nContent-Disposition: form-data; name="q"\r\n\r\n${XSS}\r\n--bb--\r\n`, {
      headers: [['Content_Type', 'multipart/form-data; boundary=bb']],
    }),
    'XSS-901',
  ],
  ['a form under text/plain is judged', post('text/plain', `q=${SQLI}`), 'SQLI-901'],
  ['a form under text/plain is decoded', post('text/plain', `a=1&q=%27+or+1%3d1--`), 'SQLI-901'],
  [
    'two types in one header take both readings',
    post('application/json;application/x-www-form-urlencoded', `{"q":"\\u003cscript>"}`),
    'XSS-901',
  ],
  [
    'JSON with a vendor type is parsed',
    post('application/vnd.api+json', `{"q":"\\u003cscript>"}`),
    'XSS-901',
  ],
  [
    'JSON of a DELETE is parsed',
    post('application/problem+json', `{"q":"${XSS}"}`, { method: 'DELETE' }),
    'XSS-901',
  ],
  [
    'two Content-Type lines take both readings',
    post(undefined, `{"q":"\\u003cscript>"}`, {
      headers: [
        ['Content-Type', 'text/plain'],
        ['Content-Type', 'application/json'],
      ],
    }),
    'XSS-901',
  ],
  ['broken JSON is judged as raw text', json(`{"q":"\\u003cscript>`), 'XSS-901'],
  ['overlong UTF-8 in two bytes', json(`{"f":"${OVERLONG}"}`), 'UTF8-OVERLONG'],
  ['overlong UTF-8 is folded for the rules', json(`{"f":"${OVERLONG}"}`), 'TRAV-901'],
  ['overlong UTF-8 in three bytes', json(`{"f":"${overlong3}"}`), 'TRAV-901'],
  ['overlong UTF-8 in four bytes', json(`{"f":"${overlong4}"}`), 'TRAV-901'],
  [
    'overlong UTF-8 in the query',
    { target: '/?f=%c0%ae%c0%ae%c0%af%c0%ae%c0%ae%c0%afetc/passwd' },
    'UTF8-OVERLONG',
  ],
  ['overlong UTF-8 in the query, folded', { target: '/?f=%c0%ae%c0%ae%c0%afetc/passwd' }, 'TRAV-901'],
  ['an overlong angle bracket', json(`{"f":"\xc0\xbcscript>"}`), 'XSS-901'],
  ['full-width letters', { target: '/?f=%EF%BC%9Cscript%EF%BC%9E' }, 'XSS-901'],
  ['percent inside JSON', json('{"q":"%27%20or%201%3D1%20--"}'), 'SQLI-901'],
  ['escapes inside JSON', json('{"q":"\\u0027 or 1=1 --"}'), 'SQLI-901'],
  ['double percent', { target: '/?q=%2527%2520or%25201%253D1%2520--' }, 'SQLI-901'],
  ['%u', { target: '/?q=%u0027%20or%201%3D1%20--' }, 'SQLI-901'],
  [
    'references of HTML in a form',
    post(
      'application/x-www-form-urlencoded',
      'q=' + encodeURIComponent('<a href="jav&#x0A;ascript&colon;alert(1)">x</a>'),
    ),
    'XSS-902',
  ],
  [
    'references of HTML, unencoded in the query',
    { target: '/?q=<a href="jav&#x0A;ascript&colon;alert(1)">x</a>' },
    'XSS-902',
  ],
  [
    'JSON within JSON',
    json(JSON.stringify({ q: JSON.stringify({ a: JSON.stringify([XSS]).replaceAll('<', '\\u003c') }) })),
    'XSS-901',
  ],
  ['base64 in the query', { target: '/?q=JyBvciAxPTEgLS0=' }, 'SQLI-901'],
  ['base64 in a cookie', { headers: [['Cookie', 'a=1; q=JyBvciAxPTEgLS0=']] }, 'SQLI-901'],
  ['a path in percent', { target: '/backup%2Esql' }, 'PATH-901'],
  ['a path with two slashes', { target: '//bar/uploads/x.php?a=b' }, 'PATH-901'],
  ['a path with three slashes', { target: '///bar/uploads/x.php' }, 'PATH-901'],
  [
    'percent in a Referer',
    { headers: [['Referer', 'https://app.test/a?b=%3Bcat%20%2Fetc%2Fpasswd']] },
    'CMD-901',
  ],
  ['text after a NUL', { target: "/?q=x%00'%20or%201=1%20--" }, 'SQLI-901'],
  ['a NUL', { target: '/?q=x%00y' }, 'NUL-BYTE'],
  ['a NUL in double percent', { target: '/?q=x%2500y' }, 'NUL-BYTE'],
  ['a NUL as %u0000', { target: '/?q=x%u0000y' }, 'NUL-BYTE'],
  ['a NUL in a form', post('application/x-www-form-urlencoded', 'file=a.php%00.jpg'), 'NUL-BYTE'],
  ['a NUL in JSON', json('{"q":"x\\u0000<script>alert(1)</script>"}'), 'NUL-BYTE'],
  ['text after a NUL in JSON', json('{"q":"x\\u0000<script>alert(1)</script>"}'), 'XSS-901'],
  [
    'the second of two User-Agent lines',
    {
      headers: [
        ['User-Agent', 'a'],
        ['User-Agent', SQLI],
      ],
    },
    'SQLI-901',
  ],
  [
    'the second of two Cookie lines',
    {
      headers: [
        ['Cookie', 'a=1'],
        ['Cookie', `b=${XSS}`],
      ],
    },
    'XSS-901',
  ],
  [
    'a payload split over two lines',
    {
      headers: [
        ['X-Custom', '<scr'],
        ['X-Custom', 'ipt>alert(1)'],
      ],
    },
    'XSS-901',
  ],
  [
    'a whole payload on one of two lines',
    {
      headers: [
        ['X-Custom', '<script>alert(1)'],
        ['X-Custom', '</script>'],
      ],
    },
    'XSS-901',
  ],
  ['comments instead of spaces', { target: '/?q=1/**/union/**/select/**/1' }, 'SQLI-902'],
  ['versioned comments', { target: '/?q=1+/*!50000union*/+/*!50000select*/+1' }, 'SQLI-902'],
  ['comments inside words', { target: '/?q=1+un/**/ion+sel/**/ect+1' }, 'SQLI-902'],
  ['quotes inside words', { target: `/?q=;c'a't+/etc/hosts` }, 'CMD-901'],
  ['backslashes inside words', { target: '/?q=;c\\at+/etc/hosts' }, 'CMD-901'],
  ['IFS instead of spaces', { target: '/?q=;cat${IFS}/etc/hosts' }, 'CMD-901'],
  ['IFS without braces', { target: '/?q=;cat$IFS$9/etc/hosts' }, 'CMD-901'],
  ['undefined variables', { target: '/?q=;cat$aaa+/etc$bbb/hosts' }, 'CMD-901'],
  ['backslashes in paths', { target: '/?f=..\\..\\x' }, 'TRAV-901'],
  ['0x2f in paths', { target: '/?f=..0x2f..0x2fx' }, 'TRAV-901'],
  ['NUL in paths', { target: '/?f=.%00./.%00./x' }, 'TRAV-901'],
  ['doubled slashes in paths', { target: '/?f=..//..//x' }, 'TRAV-901'],
  ['UTF-7', { target: '/?q=%2BADw-script%2BAD4-' }, 'XSS-901'],
  ['UTF-7 with a raw plus', { target: '/?q=+ADw-script+AD4-' }, 'XSS-901'],
  ['a query without arguments', { target: `/?${encodeURIComponent(XSS)}` }, 'XSS-901'],
  ['an argument name', { target: `/?${encodeURIComponent(XSS)}=1` }, 'XSS-901'],
  ['keys of JSON', json('{"user":{"$ne":null}}'), 'NOSQL-901'],
  ['a duplicate key', json(`{"q":"a","q":"${XSS}"}`), 'XSS-901'],
  ['XML', post('application/xml', `<a b="&lt;script&gt;"/>`), 'XSS-901'],
  ['a text-like octet stream', post('application/octet-stream', `hello ${XSS}`), 'XSS-901'],
  [
    'text inside a binary body',
    post('application/octet-stream', `\0\x01\x02\x03${'a'.repeat(40)}${XSS}`),
    'XSS-901',
  ],
  ['deep nesting is malformed', json('['.repeat(500) + ']'.repeat(500)), 'JSON-TOO-DEEP'],
  ['a charset that hides text', post('application/json; charset=utf-7', '{}'), 'BODY-CHARSET'],
  [
    'too many fields',
    post('application/x-www-form-urlencoded', 'a=1&'.repeat(500_001)),
    'BODY-TOO-MANY-FIELDS',
  ],
  [
    'text after 30 000 characters',
    { target: `/?q=${'a'.repeat(30_000)}${encodeURIComponent(SQLI)}` },
    'SQLI-901',
  ],
  [
    'a field after a long form value',
    post('application/x-www-form-urlencoded', `a=${'A'.repeat(300_000)}&q=${encodeURIComponent(SQLI)}`),
    'SQLI-901',
  ],
  [
    'the end of a long form value',
    post('application/x-www-form-urlencoded', `a=${'A'.repeat(300_000)}${encodeURIComponent(SQLI)}`),
    'SQLI-901',
  ],
  ['a key after a long JSON string', json(`{"a":"${'A'.repeat(300_000)}","q":"${XSS}"}`), 'XSS-901'],
  ['the end of a long JSON string, escaped', json(`{"a":"${'A'.repeat(300_000)}\\u003cscript>"}`), 'XSS-901'],
  [
    'a field after a long file',
    post(
      'multipart/form-data; boundary=bb',
      `--bb\r\nContent-Disposition: form-data; name="f"; filename="a"\r\n\r\n${'\0'.repeat(300_000)}\r\n--bb\r\nContent-Disposition: form-data; name="q"\r\n\r\n${SQLI}\r\n--bb--`,
    ),
    'SQLI-901',
  ],
  [
    'a file pattern across pieces',
    post(
      'multipart/form-data; boundary=bb',
      `--bb\r\nContent-Disposition: form-data; name="f"; filename="a"\r\n\r\n${'x'.repeat(65_600)}<?php ${'x'.repeat(70_000)}\r\n--bb--`,
    ),
    'FILE-902',
  ],
];

t.test('caught', async (t) => {
  for (const [name, request, id] of caught) {
    for (const pieceBytes of [16_384, 7]) {
      if (pieceBytes === 7 && (request.body?.length ?? 0) > 100_000) continue;
      const found = ids(await judge(engine, request, pieceBytes));
      t.ok(found.includes(id), `${name} (${pieceBytes}): ${found.join(' ')}`);
    }
  }
});

const passes: [string, Request][] = [
  ['quotes in part headers', part(`Content-Disposition: form-data; name="O'Brien"`, 'x')],
  ['quotes in file names', part(`Content-Disposition: form-data; name="f"; filename="it's.txt"`, 'x')],
  ['no body', post(undefined, '')],
  ['harmless vendor JSON', post('application/vnd.api+json', '{"a":[1,2,{"b":null}],"c":"x","d":[],"e":{}}')],
  [
    'Cyrillic, Arabic, emoji',
    json(Buffer.from('{"a":"Привет мир — ёлка","b":"مرحبا بالعالم","c":"😀👍🏽"}').toString('latin1')),
  ],
  ['Cyrillic in the query', { target: '/?q=%D0%9F%D1%80%D0%B8%D0%B2%D0%B5%D1%82' }],
  [
    'overlong bytes in a file',
    part('Content-Disposition: form-data; name="f"; filename="a.bin"', `\0\0${OVERLONG}`),
  ],
  ['NULs in a file', part('Content-Disposition: form-data; name="f"; filename="a.bin"', '\0'.repeat(2000))],
  ['a bare percent', { target: '/?w=100%25&share=91.4%&off=50%25+off' }],
  ['a plus', { target: '/?t=Keep+left+(2+miles)+then+stop' }],
  [
    'a JSON cookie',
    {
      headers: [
        [
          'Cookie',
          'mp_ab={"distinct_id":"t","$device_id":"d","$initial_referrer":"https://e.test"}; _pk_ref.1=["","",1573640000,"https://e.test/"]',
        ],
      ],
    },
  ],
  ['a path of Windows', json('{"p":"C:\\\\users\\\\new"}')],
  ['a wildcard', json('{"sub":"topics/*?opts=1"}')],
  ['a long plain value', { target: `/robots.txt?q=${'a'.repeat(6000)}` }],
  ['prose', json(`{"t":"${'Select the union option from the drop table list. '.repeat(20_000)}"}`)],
  ['2 000 parameters', { target: `/?${'a=1&'.repeat(2000)}` }],
  ['a name', { target: '/?n=O%27Brien%20%26%20S%C3%B6hne&note=%27!%22&email=a%2Bb@e.test' }],
];

t.test('passed', async (t) => {
  for (const [name, request] of passes) t.same(ids(await judge(engine, request)), [], name);
});

t.test('a finding says where, what and how', async (t) => {
  const [found] = await judge(engine, { target: '/?q=%2527%2520or%25201%253D1' });
  t.match(found, { id: 'SQLI-901', kind: 'match', severity: 4, points: 80, class: 'sqli' });
  t.match(found?.evidence, { target: 'query:q', text: "' or 1=1", transformations: ['url', 'percent'] });
});

t.test('a rule in observe mode adds no points, and `unless` cancels', async (t) => {
  t.match(await judge(engine, { target: '/?q=noteworthy' }), [{ id: 'NOTE-901', observed: true, points: 0 }]);
  t.same(await judge(engine, { target: '/?q=truly+noteworthy' }), []);
});

t.test('exclusions are scoped by site, path and target', async (t) => {
  const request: Request = { target: '/a/b?q=%3Cscript%3E' };
  const cases: [Record<string, string>, number][] = [
    [{ rule: 'XSS-*' }, 0],
    [{ rule: 'XSS-901', site: 'shop', path: '/a/*', target: 'query:q' }, 0],
    [{ rule: 'XSS-901', site: 'other' }, 1],
    [{ rule: 'XSS-901', path: '/b' }, 1],
    [{ rule: 'XSS-901', target: 'query:r' }, 1],
  ];
  for (const [exclusion, count] of cases) {
    t.equal(
      (await judge(engineOf({ exclusions: [exclusion] }), request)).length,
      count,
      JSON.stringify(exclusion),
    );
  }
});

t.test('a body tells its mode and its fields', async (t) => {
  const open = (request: Request) => {
    const body = engine.openBody(factsOf(request));
    const run = async (): Promise<string> => {
      await body.write(bytesOf(request));
      const { mode } = body;
      await body.end();
      return mode;
    };
    return { body, done: run() };
  };
  const one = open(json('{"user":{"name":"Zo\\u00eb"},"n":5}'));
  t.equal(await one.done, 'whole');
  t.equal(one.body.field('user.name'), 'Zoë');
  t.equal(one.body.field('n'), '5');
  const twice = open(json('{"a":1,"us\\u0065r":"x","user":"y","b":2,"b":2}'));
  await twice.done;
  t.equal(twice.body.field('user'), AMBIGUOUS, 'two values under one name, however it is written');
  t.equal(twice.body.field('b'), '2', 'the same twice is one');
  t.equal(twice.body.field('c'), undefined);
  const filled = Array.from({ length: 400 }, (_, at) => `"f${at}":1`).join(',');
  const rails = open(post('application/x-www-form-urlencoded', 'x=1&user%5Bemail%5D=Ann'));
  await rails.done;
  t.equal(rails.body.field('user[email]'), 'Ann', 'a form field under the name that it is sent with');
  const full = open(json(`{${filled},"user":"y"}`));
  await full.done;
  t.equal(full.body.field('user'), AMBIGUOUS, 'behind more fields than are kept nobody can tell');
  const two = open(part('Content-Disposition: form-data; name="user"', 'zoe'));
  t.equal(await two.done, 'stream');
  t.equal(two.body.field('user'), 'zoe');
  t.equal(await open(post('image/png', '\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\0\0\0\0\0')).done, 'stream');
});

const MIB = 1024 ** 2;
const large: [string, string, string][] = [
  ['a JSON string with escapes', 'application/json', `{"a":"${'x \\"y\\" z%41 '.repeat(MIB / 8)}"}`],
  ['JSON brackets', 'application/json', `[${'[],'.repeat(MIB)}1]`],
  ['JSON keys with much space', 'application/json', `[${'{"a$b":1},'.repeat(4500)}${' '.repeat(MIB)}1]`],
  ['empty form pairs', 'application/x-www-form-urlencoded', '&'.repeat(4 * MIB)],
  ['a long form value', 'application/x-www-form-urlencoded', `a=${'x%20%22y%22+'.repeat(MIB / 8)}`],
];

t.test('a large body leaves turns to the event loop', async (t) => {
  for (const [name, type, body] of large) {
    let turns = 0;
    let open = true;
    const tick = (): void => {
      turns++;
      if (open) setImmediate(tick);
    };
    setImmediate(tick);
    // Processor time of this process, so that a busy machine changes nothing.
    const before = process.cpuUsage();
    t.same(ids(await judge(engine, post(type, body))), [], name);
    open = false;
    const { user, system } = process.cpuUsage(before);
    // A turn of work is 5 ms and one step or flush; far from that would be work in one piece.
    const each = (user + system) / 1000 / (turns + 1);
    t.ok(each < 40, `${name}: ${each.toFixed(1)} ms a turn`);
  }
});
