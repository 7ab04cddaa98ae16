/** Public hard cases about framing (C01, C02, C09), through the gate, over raw sockets. */
import t, { type Test } from 'tap';
import { bench, blocked, passes, SQLI, XSS, type Bench } from '../support/case.js';
import { BROWSER, exchange, RawConnection, request } from '../support/raw-client.js';

const R = 'GET /admin HTTP/1.1\r\nHost: app.test\r\n\r\n';
const post = (lines: readonly string[], body: string, version = '1.1'): string =>
  `POST / HTTP/${version}\r\nHost: app.test\r\n${lines.join('\r\n')}\r\n\r\n${body}`;
const CHUNKED = 'Transfer-Encoding: chunked';
const inChunks = `27\r\n${R}\r\n0\r\n\r\n`;

const BOTH: readonly (readonly [string, string])[] = [
  ['(a) length and chunked', post(['Content-Length: 44', CHUNKED], `0\r\n\r\n${R}`)],
  ['(b) chunked first', post([CHUNKED, 'Content-Length: 4'], inChunks)],
  ['(c) chunked twice', post([CHUNKED, CHUNKED], inChunks)],
  ['(c) chunked and identity', post([CHUNKED, 'Transfer-Encoding: identity'], inChunks)],
  ['(d) xchunked', post(['Transfer-Encoding: xchunked'], inChunks)],
];

t.test('C01: Content-Length with Transfer-Encoding', async (test) => {
  const at = await bench(test);
  await passes(test, 'positive control: a chunked body', at, { body: 'hello', framing: 'chunked' });
  for (const [name, bytes] of BOTH) {
    await blocked(test, name, at, {
      bytes,
      statuses: name.startsWith('(d)') ? [400, 501] : [400],
      close: true,
    });
  }
  for (const [name, bytes] of BOTH)
    await afterHonest(test, at, `(e) after an honest request: ${name}`, bytes);
});

async function afterHonest(test: Test, at: Bench, name: string, bytes: string): Promise<void> {
  const connection = await RawConnection.open(at.gate.port);
  await connection.send(request());
  test.equal((await connection.read()).status, 200, `${name}: the honest one passes`);
  const before = at.up.bytesReceived;
  await connection.send(bytes);
  const answer = await connection.read();
  test.ok([400, 501].includes(answer.status), `${name}: 400`, { got: answer.status });
  test.ok(await connection.closes(), `${name}: closed`);
  test.equal(at.up.bytesReceived, before, `${name}: the origin saw no byte`);
  connection.destroy();
}

t.test('C02: malformed framing headers', async (test) => {
  const at = await bench(test);
  await passes(test, 'positive control: a plain length', at, { body: R });
  const rows: readonly (readonly [string, string])[] = [
    ['(a) empty length, then another', post(['Content-Length:', 'Content-Length: 39'], R)],
    ['(b) a lone CR in a value', post(['X-A: \rxTransfer-Encoding: chunked'], inChunks)],
    ['(c) leading space', `POST / HTTP/1.1\r\nHost: app.test\r\n Content-Length: 39\r\n\r\n${R}`],
    ['(d) folded', post([CHUNKED, ' , identity'], inChunks)],
    ...['+5', '5, 5', '0x5', '5.0', '-5', '5 5'].map(
      (length) => [`(e) Content-Length: ${length}`, post([`Content-Length: ${length}`], 'hello')] as const,
    ),
    ['(f) space before the colon', post(['Transfer-Encoding : chunked'], inChunks)],
    ['(g) HTTP/1.0 with chunked', post([CHUNKED], inChunks, '1.0')],
    ['(h) LF only', `POST / HTTP/1.1\nHost: app.test\nContent-Length: 5\n\nhello`],
    ['(h) LF in one line', `POST / HTTP/1.1\r\nHost: app.test\nContent-Length: 5\r\n\r\nhello`],
    ['duplicate equal lengths', post(['Content-Length: 5', 'Content-Length: 5'], 'hello')],
  ];
  for (const [name, bytes] of rows) await blocked(test, name, at, { bytes, statuses: [400], close: true });
});

t.test('C09: duplicate single-value headers', async (test) => {
  const at = await bench(test);
  const body = JSON.stringify({ q: XSS });
  const agent = BROWSER[0]?.[1] ?? '';
  await blocked(test, 'positive control', at, {
    bytes: request({ headers: [['Content-Type', 'application/json']], body }),
  });
  const rows = [
    {
      name: '(a) text, then JSON',
      spec: {
        headers: [
          ['Content-Type', 'text/plain'],
          ['Content-Type', 'application/json'],
        ] as const,
        body,
      },
    },
    {
      name: '(a) JSON, then text',
      spec: {
        headers: [
          ['Content-Type', 'application/json'],
          ['Content-Type', 'text/plain'],
        ] as const,
        body,
      },
    },
    {
      name: '(b) two User-Agents',
      spec: {
        headers: [
          ['User-Agent', agent],
          ['User-Agent', SQLI],
        ] as const,
      },
    },
    {
      name: '(d) two Referers',
      spec: {
        headers: [
          ['Referer', 'https://app.test/'],
          ['Referer', `https://app.test/?q=${encodeURIComponent(XSS)}`],
        ] as const,
      },
    },
    {
      name: '(e) two Cookies',
      spec: {
        headers: [
          ['Cookie', 'a=1'],
          ['Cookie', `b=${XSS}`],
        ] as const,
      },
    },
    {
      name: '(f) X-Custom, split',
      spec: {
        headers: [
          ['X-Custom', '<script>alert(1)'],
          ['X-Custom', '</script>'],
        ] as const,
      },
    },
  ];
  for (const { name, spec } of rows) await blocked(test, name, at, { bytes: request(spec) });
  const two = request({
    headers: [
      ['Authorization', 'Basic YTpi'],
      ['Authorization', 'Basic Yzpk'],
    ],
  });
  const answer = await exchange(at.gate.port, two);
  const judged = answer.status === 200 && at.up.last?.all('authorization').length === 2;
  test.ok(answer.status === 400 || judged, '(c) two Authorizations: 400, or both judged and forwarded', {
    got: answer.status,
  });
  await passes(test, 'control: list headers twice', at, {
    headers: [
      ['X-Tag', 'a'],
      ['X-Tag', 'b'],
      ['Cookie', 'a=1; b=2'],
    ],
  });
});
