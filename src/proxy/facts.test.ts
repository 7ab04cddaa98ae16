import t from 'tap';
import { createNetworkSet } from '../core/address.js';
import { buildFacts, cleanPath, type FactsInput, type FactsSettings } from './facts.js';
import { canonicalHost, createSiteLookup } from './host.js';

const settings: FactsSettings = {
  headersMax: 20,
  siteOf: createSiteLookup([{ name: 'app', hosts: ['app.test', '*.sub.test'] }]),
  fallbackSite: 'app',
  trusted: createNetworkSet(['10.0.0.0/8']),
  ipv6Prefix: 64,
};

const input = (over: Partial<FactsInput> = {}): FactsInput => ({
  requestId: 'r1',
  receivedAtMs: 1,
  method: 'GET',
  target: '/a?b=c',
  httpVersion: '1.1',
  rawHeaders: ['Host', 'app.test'],
  peer: '198.51.100.7',
  proxied: undefined,
  scheme: 'http',
  ...over,
});

const from = (peer: string, ...rest: string[]) => input({ peer, rawHeaders: ['Host', 'app.test', ...rest] });

t.test('what cannot be read in one way only is refused', async (t) => {
  const host = ['Host', 'app.test'];
  const cases: [string, Partial<FactsInput>, string][] = [
    ['two Host lines', { rawHeaders: [...host, 'host', 'admin.test'] }, 'HEADER-DUPLICATE'],
    [
      'two Content-Types',
      { rawHeaders: [...host, 'Content-Type', 'a/b', 'content-type', 'c/d'] },
      'HEADER-DUPLICATE',
    ],
    ['two User-Agents', { rawHeaders: [...host, 'User-Agent', 'a', 'User-Agent', 'b'] }, 'HEADER-DUPLICATE'],
    [
      'Transfer-Encoding in HTTP/1.0',
      { httpVersion: '1.0', rawHeaders: [...host, 'Transfer-Encoding', 'chunked'] },
      'TE-HTTP10',
    ],
    ['a stacked coding', { rawHeaders: [...host, 'Transfer-Encoding', 'gzip, chunked'] }, 'TE-UNKNOWN'],
    [
      'both lengths',
      { rawHeaders: [...host, 'Transfer-Encoding', 'chunked', 'Content-Length', '4'] },
      'CL-TE',
    ],
    ['no Host', { rawHeaders: [] }, 'HOST-MISSING'],
    ['user info in Host', { rawHeaders: ['Host', 'app.test@admin.test'] }, 'HOST-MALFORMED'],
    ['two ports', { rawHeaders: ['Host', 'app.test:80:90'] }, 'HOST-MALFORMED'],
    ['a path in Host', { rawHeaders: ['Host', 'app.test/x'] }, 'HOST-MALFORMED'],
    ['absolute form of another host', { target: 'http://admin.test/' }, 'HOST-MISMATCH'],
    ['absolute form without a host', { target: 'http:///x' }, 'HOST-MISMATCH'],
    ['a fragment', { target: '/a#b' }, 'TARGET-MALFORMED'],
    ['a target that is no path', { target: 'app.test:443' }, 'TARGET-MALFORMED'],
    [
      'too many headers',
      { rawHeaders: [...host, ...Array.from({ length: 44 }, (_, i) => `x${i}`)] },
      'HEADERS-TOO-MANY',
    ],
  ];
  for (const [name, over, id] of cases) {
    const facts = buildFacts(input(over), settings);
    t.equal('problem' in facts ? facts.id : 'accepted', id, name);
  }
});

t.test('targets and hosts are brought to one form', async (t) => {
  const absolute = buildFacts(input({ target: 'http://APP.test:80/x?y' }), settings);
  t.match(absolute, {
    target: '/x?y',
    path: '/x',
    query: 'y',
    host: 'app.test',
    site: 'app',
    unknownHost: false,
  });
  t.match(buildFacts(input({ rawHeaders: ['Host', 'APP.TEST.'] }), settings), {
    host: 'app.test',
    unknownHost: false,
  });
  t.match(buildFacts(input({ rawHeaders: ['Host', '203.0.113.10'] }), settings), { unknownHost: true });
  t.match(buildFacts(input({ rawHeaders: ['Host', 'a.b.sub.test:81'] }), settings), {
    site: 'app',
    unknownHost: false,
  });
  t.equal(canonicalHost('[2001:DB8::1]:80'), '[2001:db8::1]');
  t.equal(canonicalHost('a..b'), undefined);
});

t.test('clean paths are what a file system would see', async (t) => {
  for (const [raw, clean] of [
    ['/', '/'],
    ['/a/b', '/a/b'],
    ['//bar/x', '/bar/x'],
    ['/a/./b/../c', '/a/c'],
    ['/%2e%2e/etc', '/etc'],
    ['/a\\..\\b', '/b'],
    ['/../../x/', '/x/'],
    ['/%', '/%'],
  ] as const)
    t.equal(cleanPath(raw), clean, raw);
});

t.test('forwarding headers count only from trusted peers, from the right', async (t) => {
  const cases: [string, FactsInput, string][] = [
    [
      'an untrusted peer speaks for itself',
      from('198.51.100.7', 'X-Forwarded-For', '127.0.0.1'),
      '198.51.100.7',
    ],
    ['the last untrusted hop', from('10.0.0.5', 'X-Forwarded-For', '6.6.6.6, 203.0.113.9'), '203.0.113.9'],
    ['a port is cut off', from('10.0.0.5', 'X-Forwarded-For', '203.0.113.9:5555'), '203.0.113.9'],
    ['brackets are cut off', from('10.0.0.5', 'X-Forwarded-For', '[2001:db8::1]:443'), '2001:db8::1'],
    ['unknown falls back', from('10.0.0.5', 'X-Forwarded-For', 'unknown'), '10.0.0.5'],
    ['commas fall back', from('10.0.0.5', 'X-Forwarded-For', ',,'), '10.0.0.5'],
    ['all trusted: the first', from('10.0.0.5', 'X-Forwarded-For', '10.2.3.4'), '10.2.3.4'],
    [
      'two lines are joined in order',
      from('10.0.0.5', 'X-Forwarded-For', '6.6.6.6', 'X-Forwarded-For', '203.0.113.9'),
      '203.0.113.9',
    ],
    ['a mapped address is folded', from('::ffff:1.2.3.4'), '1.2.3.4'],
    [
      'a long list is bounded',
      from('10.0.0.5', 'X-Forwarded-For', `${'1.1.1.1,'.repeat(2000)}203.0.113.9`),
      '203.0.113.9',
    ],
  ];
  for (const [name, request, ip] of cases) {
    const facts = buildFacts(request, settings);
    t.equal('problem' in facts ? facts.problem : facts.client.ip, ip, name);
  }
  t.match(buildFacts(from('2001:db8:1:2::7'), settings), {
    client: { key: '2001:db8:1:2::/64', wideKey: '2001:db8:1::/56' },
  });
});
