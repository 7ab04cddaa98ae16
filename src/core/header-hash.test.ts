import t from 'tap';
import { headerHash } from './header-hash.js';

const browser = ['Host', 'a.test', 'User-Agent', 'x', 'Accept', '*/*', 'Accept-Language', 'de'];

t.test('the same names in the same order have one hash, whatever their values', async (t) => {
  const other = ['Host', 'b.test', 'User-Agent', 'y', 'Accept', 'text/html', 'Accept-Language', 'en'];
  t.equal(headerHash(browser), headerHash(other));
  t.match(headerHash(browser), /^[\w-]{16}$/);
});

t.test('order and spelling count', async (t) => {
  const hashes = [
    browser,
    ['Host', 'a.test', 'Accept', '*/*', 'User-Agent', 'x', 'Accept-Language', 'de'],
    ['host', 'a.test', 'user-agent', 'x', 'accept', '*/*', 'accept-language', 'de'],
  ].map(headerHash);
  t.equal(new Set(hashes).size, 3);
});

t.test('fields that come and go, or that proxies set, do not', async (t) => {
  const later = [...browser, 'Cookie', 'sid=1', 'X-Forwarded-For', '192.0.2.1', 'If-None-Match', '"a"'];
  t.equal(headerHash(later), headerHash(browser));
});
