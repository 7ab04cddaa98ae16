/** What curl's flags and raw text come to. */
import t from 'tap';
import { Fault } from '../core/errors.js';
import { fromFlags, fromRaw, type CurlFlags } from './explain-request.js';

const none = { headers: [], data: [], forms: [] };
const cases: {
  name: string;
  flags: CurlFlags;
  wanted: { method: string; target: string; headers: string[]; body: string };
}[] = [
  {
    name: 'a bare URL is a GET with the headers curl sends',
    flags: { ...none, url: 'shop.example.com/a?b=c#d' },
    wanted: {
      method: 'GET',
      target: '/a?b=c',
      headers: ['Host', 'shop.example.com', 'User-Agent', 'curl/8.5.0', 'Accept', '*/*'],
      body: '',
    },
  },
  {
    name: 'data makes a form POST, pieces joined with &',
    flags: {
      ...none,
      url: 'https://h',
      data: [Buffer.from('a=1'), Buffer.from('b=2')],
      headers: ['accept:', 'User-Agent;'],
    },
    wanted: {
      method: 'POST',
      target: '/',
      headers: [
        'Host',
        'h',
        'User-Agent',
        '',
        'Content-Type',
        'application/x-www-form-urlencoded',
        'Content-Length',
        '7',
      ],
      body: 'a=1&b=2',
    },
  },
  {
    name: 'paths are sent as typed, text as UTF-8 bytes',
    flags: { ...none, url: "http://h/a/../b?q=' é", method: 'PUT', cookie: 'sid=1', userAgent: 'x' },
    wanted: {
      method: 'PUT',
      target: "/a/../b?q='%20\u00c3\u00a9",
      headers: ['Host', 'h', 'User-Agent', 'x', 'Accept', '*/*', 'Cookie', 'sid=1'],
      body: '',
    },
  },
];

for (const { name, flags, wanted } of cases) {
  const request = fromFlags(flags);
  t.strictSame(
    {
      method: request.method,
      target: request.target,
      headers: request.rawHeaders,
      body: request.body.toString(),
    },
    wanted,
    name,
  );
}

const form = fromFlags({
  ...none,
  url: 'h',
  forms: [{ name: 'f', value: Buffer.from('x'), fileName: 'a.txt' }],
});
t.match(form.body.toString(), /name="f"; filename="a\.txt"/, 'a form field with a file is multipart');
t.ok(form.rawHeaders.includes('Content-Length'), 'with its length');

const raw = fromRaw(Buffer.from('POST /x HTTP/1.0\nHost: h\nX-A:  b \n\nbody\n'));
t.strictSame(raw.rawHeaders, ['Host', 'h', 'X-A', 'b'], 'raw text is read with bare line feeds too');
t.equal(raw.body.toString(), 'body\n', 'what follows the empty line is the body');
t.equal(raw.httpVersion, '1.0', 'the version is kept');
const chunked = fromRaw(
  Buffer.from('POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2;x=y\r\nde\r\n0\r\n\r\n'),
);
t.equal(chunked.body.toString(), 'abcde', 'chunks are put together');

for (const text of [
  '',
  'GET',
  'GET / HTTP/1.1\nnocolon\n\n',
  'POST / HTTP/1.1\nTransfer-Encoding: chunked\n\nzz',
]) {
  t.throws(() => fromRaw(Buffer.from(text)), Fault, `${JSON.stringify(text)} is told to be unreadable`);
}
t.throws(
  () => fromFlags({ ...none, url: 'h', headers: ['nonsense'] }),
  Fault,
  'a header without a colon is refused',
);
