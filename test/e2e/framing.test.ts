/** Hostile framing: refused with 400 (431 for size), connection closed, and the origin never sees a byte. */
import t from 'tap';
import { bench, blocked, passes } from '../support/case.js';
import { request } from '../support/raw-client.js';

const get = (lines: readonly string[], target = '/'): string =>
  `GET ${target} HTTP/1.1\r\nHost: app.test\r\n${lines.map((line) => `${line}\r\n`).join('')}\r\n`;
const post = (lines: readonly string[], body: string): string =>
  `POST / HTTP/1.1\r\nHost: app.test\r\n${lines.join('\r\n')}\r\n\r\n${body}`;
const CHUNKED = 'Transfer-Encoding: chunked';

const ROWS: readonly (readonly [name: string, bytes: string, statuses?: readonly number[]])[] = [
  ['Content-Length and Transfer-Encoding', post(['Content-Length: 5', CHUNKED], '0\r\n\r\n')],
  ['different Content-Lengths', post(['Content-Length: 5', 'Content-Length: 6'], 'hello')],
  ['equal Content-Lengths', post(['Content-Length: 5', 'Content-Length: 5'], 'hello')],
  ['a chunk size that is no number', post([CHUNKED], 'zz\r\nhello\r\n0\r\n\r\n')],
  ['a chunk size with a sign', post([CHUNKED], '+5\r\nhello\r\n0\r\n\r\n')],
  ['a chunk size with 0x', post([CHUNKED], '0x5\r\nhello\r\n0\r\n\r\n')],
  ['a chunk longer than its size', post([CHUNKED], '3\r\nhello\r\n0\r\n\r\n')],
  ['a chunk size past 64 bits', post([CHUNKED], 'fffffffffffffffff\r\nhello\r\n0\r\n\r\n')],
  ['LF after a chunk size', post([CHUNKED], '5\nhello\n0\n\n')],
  ['a folded header', get(['X-A: a', ' b'])],
  ['a header folded with a tab', get(['X-A: a', '\tb'])],
  ['NUL in a value', get(['X-A: a\0b'])],
  ['NUL in a name', get(['X-\0A: a'])],
  ['NUL in the target', get([], '/a\0b')],
  ['a space in a name', get(['X A: a'])],
  ['an empty name', get([': a'])],
  ['a line without a colon', get(['X-A'])],
  ['LF only', 'GET / HTTP/1.1\nHost: app.test\n\n'],
  ['one bare LF', 'GET / HTTP/1.1\r\nHost: app.test\nX-A: b\r\n\r\n'],
  ['too many headers', get(Array.from({ length: 300 }, (_, n) => `X-${n}: a`)), [400, 431]],
  ['far too many headers', get(Array.from({ length: 3000 }, (_, n) => `X-${n}: a`)), [400, 431]],
  ['a header list too long', get([`X-A: ${'a'.repeat(70_000)}`]), [400, 431]],
  ['two Hosts', 'GET / HTTP/1.1\r\nHost: app.test\r\nHost: app.test\r\n\r\n'],
  ['no Host', 'GET / HTTP/1.1\r\nX-A: b\r\n\r\n'],
  ['absolute form of another host', 'GET http://other.test/ HTTP/1.1\r\nHost: app.test\r\n\r\n'],
  ['a version that does not exist', 'GET / HTTP/9.9\r\nHost: app.test\r\n\r\n', [400, 505]],
  ['CONNECT', 'CONNECT app.test:443 HTTP/1.1\r\nHost: app.test:443\r\n\r\n', [400, 405, 501]],
  ['no HTTP at all', '\x16\x03\x01\x00\xa5\x01\x00\x00\xa1\x03\x03\r\n\r\n'],
];

t.test('hostile framing is refused, closed, and unseen by the origin', async (test) => {
  const at = await bench(test);
  await passes(test, 'positive control', at, { body: 'hello', framing: 'chunked' });
  for (const [name, bytes, statuses] of ROWS) {
    await blocked(test, name, at, { bytes, statuses: statuses ?? [400], close: true });
  }
});

t.test('what follows a refused message is never a request', async (test) => {
  const at = await bench(test);
  const bytes = `${post(['Content-Length: 5', CHUNKED], '0\r\n\r\n')}${request().toString('latin1')}`;
  await blocked(test, 'pipelined behind it', at, { bytes, statuses: [400], close: true });
});

t.test('ordinary framing passes', async (test) => {
  const at = await bench(test);
  await passes(test, 'absolute form of the same host', at, { target: 'http://app.test/abs' });
  test.equal(at.up.last?.target, '/abs', 'forwarded in origin form');
  await passes(test, 'Host with a port', at, { host: 'app.test:8080' });
  await passes(test, 'an empty header value', at, { headers: [['X-Empty', '']] });
  await passes(test, 'OPTIONS', at, { method: 'OPTIONS' });
  await passes(test, '60 headers', at, {
    headers: Array.from({ length: 60 }, (_, n) => [`X-${n}`, 'a'] as const),
  });
});
