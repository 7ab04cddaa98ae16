/** Public hard cases about bodies (A01, A04, A06, A07, A09, A11), through the gate, over raw sockets. */
import { brotliCompressSync, deflateRawSync, deflateSync, gzipSync } from 'node:zlib';
import t, { type Test } from 'tap';
import {
  bench,
  blocked,
  FORM,
  JSON_TYPE,
  MULTIPART,
  multipart,
  passes,
  requestIdOf,
  SQLI,
  XSS,
  type Bench,
  type Part,
} from '../support/case.js';
import { chunked, type Pair } from '../support/bytes.js';
import { exchange, RawConnection, request, type RequestSpec } from '../support/raw-client.js';

const pem = `-----BEGIN CERTIFICATE-----\n${'MIIBszCCAVmgAwIBAgIUQ0x'.repeat(12)}\n-----END CERTIFICATE-----\n`;
const jwt = `eyJhbGciOiJIUzI1NiJ9.${Buffer.from('{"sub":"42","name":"Ann O\'Brien"}').toString('base64url')}.c2lnbmF0dXJl`;
const bytes = (...codes: number[]): string => Buffer.from(codes).toString('latin1');

type Row = RequestSpec & { name: string; statuses?: readonly number[] };

const refuse = async (test: Test, at: Bench, rows: readonly Row[]): Promise<void> => {
  for (const row of rows) {
    await blocked(test, row.name, at, {
      bytes: request(row),
      ...(row.statuses ? { statuses: row.statuses } : {}),
    });
  }
};
const allow = async (test: Test, at: Bench, rows: readonly Row[]): Promise<void> => {
  for (const row of rows) await passes(test, row.name, at, row);
};
const form = (part: Part): RequestSpec => ({ headers: [MULTIPART], body: multipart([part]) });
const json = (body: string | Buffer, method = 'POST'): RequestSpec => ({
  method,
  headers: [JSON_TYPE],
  body,
});

t.test('A01: part headers that can be read two ways', async (test) => {
  const at = await bench(test);
  const field = 'Content-Disposition: form-data; name="q"';
  const utf7 = 'Content-Type: text/plain; charset=utf-7';
  await refuse(test, at, [
    { name: 'positive control', ...form({ head: [field], body: SQLI }) },
    {
      name: '(a) quote opens in mid-value',
      ...form({ head: [`Content-Disposition: form-data; name=a'; filename="'; name=q; x="`], body: SQLI }),
      statuses: [400],
    },
    {
      name: '(b) empty extended file name',
      ...form({ head: [`${field}; filename*=UTF-8''`], body: SQLI }),
    },
    { name: '(c) UTF-7 part', ...form({ head: [field, utf7], body: '+ACc- or 1+AD0-1 --' }) },
    {
      name: '(d) base64 part',
      ...form({ head: [field, 'Content-Transfer-Encoding: base64'], body: 'JyBvciAxPTEgLS0=' }),
    },
  ]);
  await allow(test, at, [
    {
      name: "control: name O'Brien",
      ...form({ head: [`Content-Disposition: form-data; name="O'Brien"`], body: 'hello' }),
    },
    { name: "control: file it's.txt", ...form({ head: [`${field}; filename="it's.txt"`], body: 'hello' }) },
  ]);
});

t.test('A04: missing, mangled or multiple Content-Type', async (test) => {
  const at = await bench(test);
  const body = JSON.stringify({ q: XSS });
  const field = { head: ['Content-Disposition: form-data; name="q"'], body: XSS };
  await refuse(test, at, [
    { name: 'positive control', ...json(body) },
    { name: '(a) no Content-Type', body },
    {
      name: '(b) Content_Type',
      headers: [['Content_Type', 'multipart/form-data; boundary=bb']],
      body: multipart([field]),
    },
    { name: '(c) form in text/plain', headers: [['Content-Type', 'text/plain']], body: `q=${SQLI}` },
    {
      name: '(d) two types in one',
      headers: [['Content-Type', 'application/json;application/x-www-form-urlencoded']],
      body,
    },
    {
      name: '(e) multipart where a form is expected',
      headers: [MULTIPART],
      body: multipart([{ ...field, body: SQLI }]),
    },
    { name: '(f) PUT', ...json(body, 'PUT') },
    { name: '(f) DELETE', ...json(body, 'DELETE') },
    ...['application/vnd.api+json', 'application/problem+json'].map((type) => ({
      name: `canary in ${type}`,
      headers: [['Content-Type', type]] as Pair[],
      body: '{"q":"\\u003cscript\\u003ealert(1)\\u003c/script\\u003e"}',
    })),
  ]);
  await allow(test, at, [
    { name: 'control: POST of length 0 without a type', method: 'POST', framing: 'length' },
    ...['application/vnd.api+json', 'application/problem+json'].map((type) => ({
      name: `control: harmless ${type}`,
      headers: [['Content-Type', type]] as Pair[],
      body: '{"title":"hello"}',
    })),
  ]);
});

t.test('A06: overlong UTF-8', async (test) => {
  const at = await bench(test);
  const dots2 = bytes(0xc0, 0xae, 0xc0, 0xae, 0xc0, 0xaf).repeat(2);
  const dots3 = bytes(0xe0, 0x80, 0xae, 0xe0, 0x80, 0xae, 0xe0, 0x80, 0xaf).repeat(2);
  const dots4 = bytes(0xf0, 0x80, 0x80, 0xae, 0xf0, 0x80, 0x80, 0xae, 0xf0, 0x80, 0x80, 0xaf).repeat(2);
  await refuse(test, at, [
    { name: 'positive control', ...json('{"f":"../../etc/passwd"}') },
    { name: 'two bytes', ...json(`{"f":"${dots2}etc/passwd"}`) },
    { name: 'three bytes', ...json(`{"f":"${dots3}etc/passwd"}`) },
    { name: 'four bytes', ...json(`{"f":"${dots4}etc/passwd"}`) },
    { name: 'in the query', target: '/?f=%c0%ae%c0%ae%c0%af%c0%ae%c0%ae%c0%afetc/passwd' },
    {
      name: 'C0 BC for <',
      ...json(`{"q":"${bytes(0xc0, 0xbc)}script>alert(1)${bytes(0xc0, 0xbc)}/script>"}`),
    },
  ]);
  const words = Buffer.from('{"f":"Привет, мир. مرحبا بالعالم 👋🏽🎉"}');
  await allow(test, at, [
    { name: 'control: Cyrillic, Arabic, emoji', ...json(words) },
    {
      name: 'control: the bytes in a binary file',
      ...form({
        head: [
          'Content-Disposition: form-data; name="f"; filename="a.bin"',
          'Content-Type: application/octet-stream',
        ],
        body: `${bytes(0, 1, 2, 0xff)}${dots2}${dots3}${bytes(0xfe, 9)}`,
      }),
    },
  ]);
});

t.test('A07: compressed request bodies', async (test) => {
  const at = await bench(test);
  const plain = `{"q":"${SQLI}"}`;
  const coded = (coding: string, body: Buffer): RequestSpec => ({
    headers: [JSON_TYPE, ['Content-Encoding', coding]],
    body,
  });
  await refuse(test, at, [
    { name: 'positive control', ...json(plain) },
    { name: '(a) gzip', ...coded('gzip', gzipSync(plain)) },
    { name: '(b) x-gzip', ...coded('x-gzip', gzipSync(plain)) },
    { name: '(c) gzip, gzip', ...coded('gzip, gzip', gzipSync(gzipSync(plain))) },
    { name: '(d) raw deflate', ...coded('deflate', deflateRawSync(plain)) },
    { name: '(d) zlib deflate', ...coded('deflate', deflateSync(plain)) },
    { name: '(e) br', ...coded('br', brotliCompressSync(plain)) },
    { name: 'unknown coding', ...coded('x-own', gzipSync(plain)), statuses: [415] },
    { name: '(g) not gzip', ...coded('gzip', Buffer.from(plain)), statuses: [400] },
    { name: '(h) truncated gzip', ...coded('gzip', gzipSync(plain).subarray(0, -9)), statuses: [400] },
    { name: '(j) identity, gzip', ...coded('identity, gzip', gzipSync(plain)) },
  ]);
  await blocked(test, '(f) Transfer-Encoding: gzip, chunked', at, {
    bytes: Buffer.concat([
      request({ method: 'POST', headers: [JSON_TYPE, ['Transfer-Encoding', 'gzip, chunked']] }),
      chunked(gzipSync(plain)),
    ]),
    statuses: [400, 501],
  });
  const before = at.gate.workerMemoryMiB();
  const bomb = gzipSync(Buffer.alloc(1024 ** 3), { level: 9 });
  await blocked(test, '(i) a GiB of zeros', at, { bytes: request(coded('gzip', bomb)), statuses: [413] });
  const grown = at.gate.workerMemoryMiB() - before;
  test.ok(grown < 32, '(i) memory grows by less than 32 MiB', { grown });
  await allow(test, at, [{ name: 'control: harmless gzip', ...coded('gzip', gzipSync('{"q":"hello"}')) }]);
});

t.test('A09: the attack stands after the inspection limit', async (test) => {
  const at = await bench(test, { timeouts: { body: '700ms' } });
  const pad = 'A'.repeat(300 * 1024);
  await refuse(test, at, [
    { name: 'positive control', headers: [FORM], body: `a=A&q=${SQLI}` },
    { name: '(d) JSON, long string first', ...json(`{"a":"${pad}","q":"${XSS}"}`) },
  ]);
  // Above 256 KB the body streams: the origin may have seen a part, never a whole request.
  const streamed: Row[] = [
    { name: '(a) form', headers: [FORM], body: `a=${pad}&q=${SQLI}` },
    { name: '(b) chunked', headers: [FORM], body: `a=${pad}&q=${SQLI}`, framing: 'chunked' },
    {
      name: '(c) multipart, file first',
      headers: [MULTIPART],
      body: multipart([
        { head: ['Content-Disposition: form-data; name="f"; filename="a.txt"'], body: pad },
        { head: ['Content-Disposition: form-data; name="q"'], body: SQLI },
      ]),
    },
    { name: 'over 10 MB of JSON', ...json(`{"a":"${'A'.repeat(11 * 1024 * 1024)}","q":"${XSS}"}`) },
  ];
  for (const row of streamed) {
    const done = at.up.completed;
    const answer = await exchange(at.gate.port, request(row), { timeoutMs: 8000 });
    test.ok(answer.status >= 400 && answer.status < 500, `${row.name}: refused`, { got: answer.status });
    test.equal(at.up.completed, done, `${row.name}: the origin never saw a whole request`);
  }
  await t09Stall(test, at);
  await passes(test, 'control: 5 MB text file', at, {
    ...form({
      head: ['Content-Disposition: form-data; name="f"; filename="a.txt"'],
      body: 'lorem ipsum '.repeat(450_000),
    }),
  });
});

async function t09Stall(test: Test, at: Bench): Promise<void> {
  const done = at.up.completed;
  const connection = await RawConnection.open(at.gate.port);
  const head = request({ method: 'POST', headers: [FORM, ['Content-Length', String(10 * 1024 * 1024)]] });
  await connection.send(Buffer.concat([head, Buffer.from(`a=${'A'.repeat(200 * 1024)}`)]));
  const answer = await connection.read({ timeoutMs: 6000 });
  const ended = answer.status === 408 || answer.status === 400 || answer.closed;
  test.ok(ended, '(e) a stalled body ends by its deadline', {
    got: answer.status,
    timedOut: answer.timedOut,
  });
  test.equal(at.up.completed, done, '(e) the origin never saw a whole request');
  connection.destroy();
}

t.test('A11: layered encodings', async (test) => {
  const at = await bench(test);
  const inner = JSON.stringify({ x: JSON.stringify({ q: XSS }) });
  await refuse(test, at, [
    { name: 'positive control', target: `/?q='%20or%201=1%20--` },
    { name: '(a) percent in JSON', ...json('{"q":"%27%20or%201%3D1%20--"}') },
    { name: '(b) JSON escape', ...json('{"q":"\\u0027 or 1=1 --"}') },
    { name: '(c) double percent', target: '/?q=%2527%2520or%25201%253D1%2520--' },
    { name: '(d) %u', target: '/?q=%u0027%20or%201%3D1%20--' },
    {
      name: '(e) entities',
      headers: [FORM],
      body: `q=${encodeURIComponent('<a href="jav&#x0A;ascript&colon;alert(1)">x</a>')}`,
    },
    { name: '(f) JSON in JSON in JSON', ...json(inner) },
  ]);
  await allow(test, at, [
    { name: 'control: 100%25', target: '/?discount=100%25' },
    { name: 'control: 50%25+off', target: '/?q=50%25+off' },
    { name: 'control: a Windows path', ...json('{"p":"C:\\\\users\\\\new"}') },
    { name: 'control: a JWT cookie', headers: [['Cookie', `token=${jwt}`]] },
    { name: 'control: a PEM block', ...json(JSON.stringify({ cert: pem })) },
  ]);
  for (const [name, spec] of [
    ['query', { target: '/?q=JyBvciAxPTEgLS0=' }],
    ['cookie', { headers: [['Cookie', 'q=JyBvciAxPTEgLS0=']] as Pair[] }],
  ] as const) {
    const seen = at.gate.decisions.length;
    const answer = await exchange(at.gate.port, request(spec));
    const id = requestIdOf(answer);
    const event = await at.gate.event((one) =>
      id === '' ? at.gate.decisions.indexOf(one) >= seen : one.requestId === id,
    );
    test.ok(event.score > 0 || event.ruleIds.length > 0, `(g) base64 in a ${name} raises the score`, {
      score: event.score,
    });
  }
});
