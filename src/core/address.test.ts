import fc from 'fast-check';
import ipaddr from 'ipaddr.js';
import t from 'tap';
import { behindNat64, canonicalAddress, createNetworkSet, formatNetwork } from './address.js';
import { networkBehindNat64, parseNetwork, prefixKey } from './address.js';

t.test('an address has one canonical text', (t) => {
  const cases: [text: string, wanted: string | undefined][] = [
    ['1.2.3.4', '1.2.3.4'],
    ['255.255.255.255', '255.255.255.255'],
    ['0.0.0.0', '0.0.0.0'],
    ['01.2.3.4', undefined],
    ['1.2.3', undefined],
    ['1.2.3.4.5', undefined],
    ['1.2.3.256', undefined],
    ['1.2.3.4 ', undefined],
    ['1..3.4', undefined],
    ['0x7f.0.0.1', undefined],
    ['2130706433', undefined],
    ['::ffff:1.2.3.4', '1.2.3.4'],
    ['::FFFF:0102:0304', '1.2.3.4'],
    ['0:0:0:0:0:ffff:1.2.3.4', '1.2.3.4'],
    ['::1.2.3.4', '::102:304'],
    ['2001:DB8:0:0:0:0:0:1', '2001:db8::1'],
    ['2001:0db8::0001', '2001:db8::1'],
    ['2001:db8:0:1:1:1:1:1', '2001:db8:0:1:1:1:1:1'],
    ['2001:0:0:1:0:0:0:1', '2001:0:0:1::1'],
    ['2001:db8:0:0:1:0:0:1', '2001:db8::1:0:0:1'],
    ['1:2:3:4:5:6:7::', '1:2:3:4:5:6:7:0'],
    ['::', '::'],
    ['::1', '::1'],
    ['1::', '1::'],
    ['fe80::1%eth0', 'fe80::1'],
    ['fe80::1%', undefined],
    ['1:2:3:4:5:6:7:8:9', undefined],
    ['1:2:3:4:5:6:7', undefined],
    ['1::2::3', undefined],
    [':::', undefined],
    [':1', undefined],
    ['1:', undefined],
    ['12345::', undefined],
    ['::1.2.3.4:5', undefined],
    ['[::1]', undefined],
    ['unknown', undefined],
    ['', undefined],
  ];
  for (const [text, wanted] of cases) t.equal(canonicalAddress(text), wanted, JSON.stringify(text));
  t.end();
});

t.test('an IPv6 client is keyed by its network, an IPv4 client by itself', (t) => {
  t.equal(prefixKey('1.2.3.4', 64), '1.2.3.4');
  t.equal(prefixKey('2001:db8:1:2:3:4:5:6', 64), '2001:db8:1:2::/64');
  t.equal(prefixKey('2001:db8:1:2ff:3:4:5:6', 56), '2001:db8:1:200::/56');
  t.equal(prefixKey('::1', 128), '::1/128');
  t.equal(prefixKey('::ffff:1.2.3.4', 64), '1.2.3.4');
  t.equal(prefixKey('garbage', 64), 'garbage');
  t.end();
});

t.test('a network is masked, a mapped one folded', (t) => {
  const cases: [string, string | undefined][] = [
    ['10.1.2.3/8', '10.0.0.0/8'],
    ['10.1.2.3', '10.1.2.3'],
    ['::ffff:10.0.0.0/104', '10.0.0.0/8'],
    ['2001:db8::1/32', '2001:db8::/32'],
    ['0.0.0.0/0', '0.0.0.0/0'],
    ['10.0.0.0/33', undefined],
    ['10.0.0.0/', undefined],
    ['10.0.0.0/08', undefined],
    ['::/129', undefined],
    ['10.0.0.0-10.0.0.9', undefined],
  ];
  for (const [text, wanted] of cases) {
    const network = parseNetwork(text);
    t.equal(network && formatNetwork(network), wanted, text);
  }
  t.end();
});

t.test('a network set holds what lies inside, in either family', (t) => {
  const set = createNetworkSet(['10.0.0.0/8', '192.0.2.7', '2001:db8::/33', 'nonsense']);
  for (const ip of ['10.255.0.1', '::ffff:10.0.0.1', '192.0.2.7', '2001:db8:7fff::1']) t.ok(set.has(ip), ip);
  for (const ip of ['11.0.0.1', '192.0.2.8', '2001:db8:8000::1', '::1', 'x', '']) t.notOk(set.has(ip), ip);
  t.end();
});

t.test('no text makes it throw, and canonical text is a fixpoint that agrees with another parser', (t) => {
  const set = createNetworkSet(['10.0.0.0/8', '::/1']);
  const pieces = fc.constantFrom(':', '::', '.', '0', '1', 'ffff', '255', '%', '/', 'g', '::ffff:');
  const near = fc.array(pieces, { maxLength: 20 });
  const texts = fc.oneof(
    fc.string(),
    near.map((parts) => parts.join('')),
    fc.ipV6(),
    fc.ipV4(),
  );
  fc.assert(
    fc.property(texts, (text) => {
      const canonical = canonicalAddress(text);
      prefixKey(text, 64);
      parseNetwork(text);
      set.has(text);
      if (canonical === undefined) return;
      if (canonicalAddress(canonical) !== canonical) throw new Error(`not a fixpoint: ${text}`);
      if (text.includes('.') && text.includes(':')) return; // the other parser reads ::1.2.3.4 as mapped
      const other = ipaddr.process(text.split('%')[0] ?? '');
      if (other.toString() !== ipaddr.process(canonical).toString()) throw new Error(`differs: ${text}`);
    }),
    { numRuns: 3000 },
  );
  t.end();
});

t.test('every IPv6 address that can be written is read back', (t) => {
  const group = fc.oneof(fc.constant(0), fc.integer({ min: 0, max: 0xffff }));
  fc.assert(
    fc.property(fc.array(group, { minLength: 8, maxLength: 8 }), (groups) => {
      const wanted = ipaddr.process(groups.map((group) => group.toString(16)).join(':'));
      const canonical = canonicalAddress(groups.map((group) => group.toString(16)).join(':'));
      if (canonical === undefined) return false;
      return ipaddr.process(canonical).toNormalizedString() === wanted.toNormalizedString();
    }),
  );
  t.end();
});

t.test('an address behind NAT64 is the IPv4 address it stands for, where that is asked', (t) => {
  const wanted: Record<string, string> = {
    '64:ff9b::c612:101': '198.18.1.1',
    '64:ff9b::101': '0.0.1.1',
    '64:ff9b:1::c612:101': '64:ff9b:1::c612:101',
    '64:ff9b::1:c612:101': '64:ff9b::1:c612:101',
    '2001:db8::1': '2001:db8::1',
    '198.18.1.1': '198.18.1.1',
  };
  for (const [ip, folded] of Object.entries(wanted)) t.equal(behindNat64(ip), folded);
  const network = (text: string) => networkBehindNat64(parseNetwork(text)!);
  t.same(network('64:ff9b::198.18.1.1'), parseNetwork('198.18.1.1'));
  t.same(network('64:ff9b::198.18.0.0/112'), parseNetwork('198.18.0.0/16'));
  t.same(network('2001:db8::/48'), parseNetwork('2001:db8::/48'));
  for (const wide of ['64:ff9b::/64', '64:ff9b::/32', '::/8']) t.equal(network(wide), undefined, wide);
  t.end();
});
