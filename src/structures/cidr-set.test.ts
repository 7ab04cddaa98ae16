import fc from 'fast-check';
import t from 'tap';
import { canonicalAddress, formatNetwork, networkContains, parseNetwork } from '../core/address.js';
import { createCidrSet } from './cidr-set.js';

function setOf(...entries: string[]) {
  const set = createCidrSet();
  for (const entry of entries) set.add(parseNetwork(entry)!);
  return set;
}

t.test('an address is found by itself and by every network around it', (t) => {
  const set = setOf('192.0.2.1', '203.0.113.0/24', '128.0.0.0/9', '2001:db8::1', '2001:db8:5::/48');
  const cases: [string, boolean][] = [
    ['192.0.2.1', true],
    ['192.0.2.2', false],
    ['203.0.113.255', true],
    ['203.0.114.0', false],
    ['128.127.255.255', true],
    ['128.128.0.0', false],
    ['2001:db8::1', true],
    ['2001:db8::2', false],
    ['2001:db8:5:ffff::9', true],
    ['2001:db8:6::', false],
    ['garbage', false],
    ['', false],
  ];
  for (const [ip, wanted] of cases) t.equal(set.has(ip), wanted, ip);
  t.end();
});

t.test('a duplicate counts once', (t) => {
  t.equal(setOf('192.0.2.0/24', '192.0.2.9/24', '192.0.2.0', '2001:db8::/32', '2001:DB8::/32').size, 3);
  t.end();
});

t.test('whatever the networks, it answers as a linear search would', (t) => {
  const octet = fc.constantFrom(0, 1, 127, 128, 255);
  const ip = fc.oneof(
    fc.tuple(octet, octet, octet, octet).map((parts) => parts.join('.')),
    fc.ipV6(),
  );
  const network = fc.tuple(ip, fc.integer({ min: 0, max: 128 })).map(([text, length]) => {
    return parseNetwork(`${text}/${text.includes(':') ? length : length % 33}`);
  });
  fc.assert(
    fc.property(fc.array(network, { maxLength: 12 }), fc.array(ip, { maxLength: 12 }), (networks, ips) => {
      const set = createCidrSet();
      const known = networks.filter((one) => one !== undefined);
      for (const one of known) set.add(one);
      return ips.every((text) => {
        const canonical = canonicalAddress(text)!;
        const address = parseNetwork(canonical)!;
        return set.has(canonical) === known.some((one) => networkContains(one, address));
      });
    }),
    { numRuns: 1000 },
  );
  t.end();
});

t.test('a network is covered only by one at least as wide', (t) => {
  const set = setOf('203.0.113.0/24', '2001:db8::/48');
  const cases: [string, boolean][] = [
    ['203.0.113.0/24', true],
    ['203.0.113.7', true],
    ['203.0.112.0/23', false],
    ['2001:db8:0:1::/64', true],
    ['2001:db8::/32', false],
  ];
  for (const [text, wanted] of cases) t.equal(set.covers(parseNetwork(text)!), wanted, text);
  t.end();
});

t.test('what lies in a network is found', (t) => {
  const set = setOf('203.0.113.7', '198.51.100.0/25', '2001:db8:1:2::/64', '2001:db8:1:3::5');
  const cases: [string, string | undefined][] = [
    ['203.0.113.0/24', '203.0.113.7'],
    ['203.0.113.7', '203.0.113.7'],
    ['198.51.100.0/24', '198.51.100.0/25'],
    ['198.51.100.0/26', undefined],
    ['203.0.114.0/24', undefined],
    ['2001:db8:1:2::/63', '2001:db8:1:3::5'],
    ['2001:db8:1:2::/64', '2001:db8:1:2::/64'],
    ['2001:db8:2::/48', undefined],
  ];
  for (const [text, wanted] of cases) {
    const found = set.inside(parseNetwork(text)!);
    t.equal(found && formatNetwork(found), wanted, text);
  }
  t.end();
});
