/** Bodies that two readers take differently: every reading is judged, and ordinary ones of the kind pass. */
import t from 'tap';
import { gzipSync } from 'node:zlib';
import { engineOf, factsOf, ids, judge } from '../fixtures/requests.js';
import type { Request } from '../fixtures/requests.js';

const engine = engineOf();
const FORM = 'application/x-www-form-urlencoded';
const SQLI = "' or 1=1 --";
const CODED = encodeURIComponent(SQLI);
const post = (type: string | undefined, body: string | Buffer): Request => ({
  method: 'POST',
  headers: type === undefined ? [] : [['Content-Type', type]],
  body,
});
const part = (head: string, value: string, type = 'multipart/form-data; boundary=bb'): Request =>
  post(type, `--bb\r\n${head}\r\n\r\n${value}\r\n--bb--\r\n`);
const FIELD = 'Content-Disposition: form-data; name="q"';
const FILE = 'Content-Disposition: form-data; name="f"; filename="a.txt"';

/** Text as UTF-16 or UTF-32. */
function wide(text: string, unit: 2 | 4, big: boolean, mark = false): Buffer {
  const codes = [...(mark ? '\ufeff' : ''), ...text].map((char) => char.codePointAt(0) ?? 0);
  const out = Buffer.alloc(codes.length * unit);
  codes.forEach((code, index) => {
    const at = index * unit;
    if (unit === 4) (big ? out.writeUInt32BE(code, at) : out.writeUInt32LE(code, at));
    else (big ? out.writeUInt16BE(code, at) : out.writeUInt16LE(code, at));
  });
  return out;
}

const hidden = `--x\r\nContent-Disposition: form-data; name="f"; filename="f"\r\n\r\n&q=${CODED}\r\n--x--\r\n`;
const inField = `--x\r\nContent-Disposition: form-data; name="q"\r\n\r\n${SQLI}\r\n--x--\r\n`;
const escaped = '{"q":"\\u0027 or 1=1 --"}';
const caught: [string, Request, string][] = [
  ['a form that looks like multipart', post(FORM, hidden), 'SQLI-901'],
  ['text that looks like multipart and is a form', post('text/plain', hidden), 'SQLI-901'],
  ['no type, and the form in what looks like a file', post(undefined, hidden), 'SQLI-901'],
  ['a form that is multipart', post(FORM, inField), 'SQLI-901'],
  [
    'JSON and multipart in one type',
    post('application/json, multipart/form-data; boundary=x', inField),
    'MULTIPART-MALFORMED',
  ],
  ...[2, 4].flatMap((unit) =>
    [true, false].flatMap((big) =>
      [true, false].map((mark): [string, Request, string] => [
        `JSON in ${unit} bytes a character, big ${big}, mark ${mark}`,
        post('application/json', wide(escaped, unit as 2 | 4, big, mark)),
        'SQLI-901',
      ]),
    ),
  ),
  ['JSON in UTF-16 without a type', post(undefined, wide(escaped, 2, false)), 'SQLI-901'],
  ['JSON in UTF-16 as bytes', post('application/octet-stream', wide(escaped.repeat(1), 2, true)), 'SQLI-901'],
  ['a form in UTF-16', post(FORM, wide(`a=1&q=${CODED}`, 2, false)), 'SQLI-901'],
  ['XML in UTF-16', post('application/xml', wide(`<q>${SQLI}</q>`, 2, true, true)), 'SQLI-901'],
  ['a form that only begins like UTF-16', post(FORM, `a\0=1&q=${CODED}`), 'SQLI-901'],
  ['XML in EBCDIC', post('application/xml', Buffer.from('4c6fa7949340a58599', 'hex')), 'BODY-CHARSET'],
  [
    'XML that declares EBCDIC',
    post('text/xml', '<?xml version="1.0" encoding="IBM037"?><a/>'),
    'BODY-CHARSET',
  ],
  ['XML that declares UTF-7', post(undefined, "<?xml version='1.0' encoding='utf-7'?><a/>"), 'BODY-CHARSET'],
  ['XML split by CDATA', post('text/xml', '<q>1 uni<![CDATA[on sel]]>ect 1,2</q>'), 'SQLI-902'],
  ['XML split by a comment', post('text/xml', '<q>1 uni<!-- x -->on select 1</q>'), 'SQLI-902'],
  ['XML split by an instruction', post('text/xml', '<q>1 union sel<?x y?>ect 1</q>'), 'SQLI-902'],
  [
    'XML with entities of its own',
    post('text/xml', '<!DOCTYPE q [<!ENTITY a "uni"><!ENTITY b "&a;on sel">]><q>1 &b;ect 1,2</q>'),
    'SQLI-902',
  ],
  [
    'the prototype of a constructor',
    post('application/json', '{"constructor":{"prototype":{"a":true}}}'),
    'PROTO-901',
  ],
  [
    'the same with escapes',
    post('application/json', '{"x":{"construct\\u006fr":{"prototype":{"a":true}}}}'),
    'PROTO-901',
  ],
  [
    'a hidden parameter in a name',
    part('Content-Disposition: form-data; name="a\\"; filename=\\"x"', 'x'),
    'MULTIPART-MALFORMED',
  ],
  [
    'an escaped quote before the file name',
    part('Content-Disposition: form-data; name="a\\"b"; filename="x"', 'x'),
    'MULTIPART-MALFORMED',
  ],
  [
    'a hidden name in a file name',
    part('Content-Disposition: form-data; name="a"; filename="x\\"; name=\\"q"', 'x'),
    'MULTIPART-MALFORMED',
  ],
  ['an unknown parameter', part(`${FIELD}; charset=x`, 'x'), 'MULTIPART-MALFORMED'],
  [
    'a file in base64',
    part(`${FILE}\r\nContent-Transfer-Encoding: base64`, Buffer.from('<?php  phpinfo();').toString('base64')),
    'FILE-902',
  ],
  ['a field in base64', part(`${FIELD}\r\nContent-Transfer-Encoding: base64`, 'eA=='), 'MULTIPART-ENCODING'],
  [
    'a part of multipart/related',
    part('Content-Type: application/json', escaped, 'multipart/related; boundary=bb'),
    'SQLI-901',
  ],
  [
    'a part without a header',
    post('multipart/mixed; boundary=bb', `--bb\r\n\r\n${SQLI}\r\n--bb--\r\n`),
    'SQLI-901',
  ],
  ['a form field in multipart/mixed', part(FIELD, SQLI, 'multipart/mixed; boundary=bb'), 'SQLI-901'],
  ['a token', { headers: [['Authorization', jwt(`{"kid":"${SQLI}"}`, '{"sub":"1"}')]] }, 'SQLI-901'],
  [
    'a claim',
    { headers: [['Cookie', `t=${jwt('{"alg":"none"}', `{"sub":"${SQLI}"}`).slice(7)}`]] },
    'SQLI-901',
  ],
  [
    'a token in JSON',
    post('application/json', `{"t":"${jwt('{"alg":"none"}', `{"sub":"${SQLI}"}`).slice(7)}"}`),
    'SQLI-901',
  ],
  [
    'credentials',
    { headers: [['Authorization', `Basic ${Buffer.from(`${SQLI}:x`).toString('base64')}`]] },
    'SQLI-901',
  ],
  [
    'a data URI',
    post(
      'application/json',
      `{"u":"data:text/plain;base64,${Buffer.from(`<p>${SQLI}</p>xx`).toString('base64')}"}`,
    ),
    'SQLI-901',
  ],
  [
    'base64 in lines',
    post('application/json', JSON.stringify({ q: lines(`some text ${'x'.repeat(90)} ${SQLI}`) })),
    'SQLI-901',
  ],
  ['base64 three times', { target: `/?q=${encodeURIComponent(layers(SQLI + ' and more', 3))}` }, 'SQLI-901'],
  [
    'msgpack',
    post(
      'application/msgpack',
      Buffer.concat([Buffer.from([0x81, 0xa1, 0x71, 0xab]), Buffer.from(SQLI), Buffer.from([0, 1, 2])]),
    ),
    'SQLI-901',
  ],
];

function jwt(header: string, claims: string): string {
  return `Bearer ${[header, claims].map((part) => Buffer.from(part).toString('base64url')).join('.')}.c2ln`;
}
function lines(text: string): string {
  return Buffer.from(text).toString('base64').replace(/.{76}/g, '$&\r\n');
}
function layers(text: string, count: number): string {
  return count === 0 ? text : layers(Buffer.from(text).toString('base64'), count - 1);
}

t.test('caught', async (t) => {
  for (const [name, request, id] of caught) {
    for (const pieceBytes of [16_384, 7]) {
      const found = ids(await judge(engine, request, pieceBytes));
      t.ok(found.includes(id), `${name} (${pieceBytes}): ${found.join(' ')}`);
    }
  }
});

const boundaries = [
  "boundary*=utf-8''bb",
  'boundary*0=bb',
  'boundary=bb; boundary=cc',
  'boundary=bb; boundary=bb',
  'boundary =bb',
  'boundary= bb',
  'boundary="bb',
  'boundary="bb"x',
  'boundary="b\\b"',
  'boundary="bb "',
  'boundary=""',
  "boundary='bb'",
  'boundary=bb,cc',
  'x="a;boundary=cc;boundary=bb',
];

t.test('a boundary that can be read in two ways is refused', async (t) => {
  for (const parameter of boundaries) {
    const request = part(FIELD, 'x', `multipart/form-data; ${parameter}`);
    t.match(await judge(engine, request), [{ id: 'MULTIPART-MALFORMED', status: 400 }], parameter);
  }
  for (const type of [
    'multipart/form-data; boundary="bb"',
    'multipart/form-data;boundary=bb',
    'Multipart/Form-Data; charset=utf-8; Boundary=bb;',
    'multipart/form-data ; boundary=bb ; charset="utf-8"',
  ])
    t.same(ids(await judge(engine, part(FIELD, 'x', type))), [], type);
  for (const boundary of ['----=_Part_1_23.45', '===============123==', '----WebKitFormBoundary7MA4YWxkTrZu0gW', 'a:b/c']) {
    const body = `--${boundary}\r\n${FIELD}\r\n\r\nx\r\n--${boundary}--\r\n`;
    t.same(ids(await judge(engine, post(`multipart/form-data; boundary=${boundary}`, body))), [], boundary);
  }
});

const odata = [
  '--bb\r\nContent-Type: multipart/mixed; boundary=cs\r\n\r\n--cs\r\nContent-Type: application/http',
  'Content-Transfer-Encoding: binary\r\nContent-ID: 1\r\n\r\nPATCH /Products(1) HTTP/1.1\r\nContent-Type: application/json',
  '\r\n{"Name":"Tea & co"}\r\n--cs--\r\n--bb\r\nContent-Type: application/http\r\n\r\nGET /Products?$top=5 HTTP/1.1\r\n\r\n\r\n--bb--\r\n',
].join('\r\n');
const png = `\x89PNG\r\n\x1a\n\0\0\0\rIHDR${'\0\x01'.repeat(200)}`;
const google = `--bb\r\nContent-Type: application/json; charset=UTF-8\r\n\r\n{"name":"a.png"}\r\n--bb\r\nContent-Type: image/png\r\n\r\n${png}\r\n--bb--`;
const svg = '<?xml version="1.0" encoding="UTF-8"?><!DOCTYPE svg PUBLIC "-//W3C//DTD SVG 1.1//EN" "http://www.w3.org/Graphics/SVG/1.1/DTD/svg11.dtd"><svg><![CDATA[a < b]]> c</svg>';
const passes: [string, Request][] = [
  [
    'an escaped quote in a file name',
    part('Content-Disposition: form-data; name="f"; filename="a \\"b\\".txt"', 'x'),
  ],
  ['a size', part(`${FILE}; size=5`, 'hello')],
  ['dates', part(`${FILE}; modification-date="Wed, 12 Feb 1997 16:29:51 -0500"`, 'x')],
  [
    'a file in base64',
    part(`${FILE}\r\nContent-Transfer-Encoding: base64`, Buffer.from('hello').toString('base64')),
  ],
  ['a batch of OData', post('multipart/mixed; boundary=bb', odata)],
  ['an upload of Google', post('multipart/related; boundary=bb', google)],
  ['SVG', post('image/svg+xml', svg)],
  ['SVG as XML', post('application/xml', svg)],
  [
    'XML that declares UTF-16 and is',
    post('text/xml', wide('<?xml version="1.0" encoding="UTF-16"?><a>b</a>', 2, true, true)),
  ],
  [
    'a constructor',
    post('application/json', '{"constructor":"Smith Ltd","prototype":{"a":1},"x":{"prototype":"v2"}}'),
  ],
  [
    'a token',
    { headers: [['Authorization', jwt('{"alg":"RS256","kid":"a-1"}', '{"name":"Ann O\'Brien","iat":1}')]] },
  ],
  [
    'an image in a data URI',
    post(
      'application/json',
      `{"u":"data:image/png;base64,${Buffer.from(png, 'latin1').toString('base64')}"}`,
    ),
  ],
  [
    'a protobuf',
    post('application/x-protobuf', Buffer.from([8, 150, 1, 18, 5, ...Buffer.from('hello'), 0, 0, 1, 2])),
  ],
  ['a form that ends in dashes', post(FORM, 'a=--x&b=--')],
];

t.test('passed', async (t) => {
  for (const [name, request] of passes)
    for (const pieceBytes of [16_384, 7])
      t.same(ids(await judge(engine, request, pieceBytes)).filter((id) => id !== 'NUL-BYTE'), [], name);
});

/** A gzip file with a name in its header. */
function named(text: string, name: string): Buffer {
  const plain = gzipSync(text);
  const head = Buffer.from(plain.subarray(0, 10));
  head[3] = 8;
  return Buffer.concat([head, Buffer.from(`${name}\0`, 'latin1'), plain.subarray(10)]);
}

t.test('the bytes of a compressed body are judged as they are', async (t) => {
  const request = post('multipart/form-data; boundary=bb', '');
  const rows: [string, Buffer, boolean][] = [
    ['a multipart body in the name', named('x', `\r\n--bb\r\n${FIELD}\r\n\r\n${SQLI}\r\n--bb--\r\n`), true],
    ['pairs in the name', named('x', `&a=1&q=${CODED}&`), true],
    ['a stored block', gzipSync(`&q=${CODED}&`, { level: 0 }), true],
    ['an ordinary name', named('hello', 'report 2024.csv'), false],
    ['ordinary text', gzipSync('hello world '.repeat(50)), false],
  ];
  for (const [name, bytes, wanted] of rows) {
    const body = engine.openBody(factsOf({ ...request, body: 'x' }));
    const found = [...(await body.raw(bytes)), ...(await body.end())];
    t.equal(ids(found).includes('SQLI-901'), wanted, name);
  }
});

t.test('work ends with what refuses, with the client, and with what one request may ask for', async (t) => {
  const text = `${'words of prose\n'.repeat(20_000)}`;
  const attack = post('text/plain', `${SQLI}\n${text}`);
  let told = 0;
  const run = async (watch: { stop: boolean; gone: boolean }) => {
    const body = engine.openBody(factsOf(attack), {
      found: (findings) => Promise.resolve(((told += findings.length), !watch.stop)),
      gone: () => watch.gone,
    });
    return [...(await body.write(Buffer.from(attack.body ?? ''))), ...(await body.end())];
  };
  await run({ stop: true, gone: false });
  t.equal(told, 1, 'told before the end');
  const before = told;
  await run({ stop: false, gone: true });
  t.equal(told, before, 'nobody is told');
  const small = engineOf({ workMax: '1MB', workPerByte: 1 });
  t.ok(ids(await judge(small, post('text/plain', text.repeat(5)))).includes('WORK-MAX'));
  t.same(ids(await judge(small, post('text/plain', text))), []);
});
