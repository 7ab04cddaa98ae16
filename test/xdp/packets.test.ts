/** The XDP filter's verdict and counters for every kind of frame, through the kernel's own test run. */
import t from 'tap';
import { ACK, frame, knownFrom, NEXT, SYN, TAG_8021AD, TAG_8021Q, tcp, UDP, type Packet } from './frames.js';
import { filterMissing, tryOut, type Entry } from './try-out.js';

const skip = { skip: filterMissing };
const BANNED4 = '203.0.113.9';
const BANNED6 = '2001:db8:1:2::9';
const BANS: readonly Entry[] = [
  { net: '203.0.113.0/24' },
  { net: '2001:db8:1::/48' },
  { net: '198.51.100.7' },
  { net: '2001:db8:9:9::/64' },
];
const Q = TAG_8021Q;
const AD = TAG_8021AD;
/** No cap gets in the way of a table. */
const UNCAPPED = ['--packet-cap', '0', '--syn-cap', '0'];

type Variant = readonly [name: string, packet: Packet, noted?: Readonly<Record<string, number>>];

const LINKS: readonly Variant[] = [
  ['untagged', {}],
  ['one tag', { tags: [Q] }],
  ['two tags', { tags: [Q, Q] }],
  ['three tags', { tags: [Q, Q, Q] }],
  ['four tags', { tags: [AD, Q, Q, Q] }],
  ['eight tags', { tags: [AD, AD, Q, Q, Q, Q, Q, Q] }],
  ['eight tags of VLAN 0', { tags: Array<number>(8).fill(Q), vlan: 0 }],
  ['802.1ad outside, 802.1Q inside', { tags: [AD, Q] }],
  ['802.1ad alone', { tags: [AD] }],
];
const FRAGMENT = { 'noted.fragment': 1 };
const NETWORKS4: readonly Variant[] = [
  ['IPv4 with TCP', {}],
  ['IPv4 with UDP', { protocol: NEXT.udp, payload: UDP }],
  ['IPv4 with an unknown protocol', { protocol: 253 }],
  ['a frame over several buffers', { payload: Buffer.concat([ACK, Buffer.alloc(3900)]) }],
  ['IPv4 with 4 bytes of options', { options: 4 }],
  ['IPv4 with 40 bytes of options', { options: 40 }],
  ['first fragment', { fragment: { offset: 0, more: true } }, FRAGMENT],
  ['middle fragment', { fragment: { offset: 185, more: true } }, FRAGMENT],
  ['last fragment', { fragment: { offset: 370, more: false } }, FRAGMENT],
];
const SHORT4 = NETWORKS4.filter(([name]) => !name.startsWith('a frame over'));
const HIDDEN = { 'noted.hiddenTransport': 1 };
const DEEP = { 'noted.deepExtensions': 1 };
const options = (count: number) => Array.from({ length: count }, () => ({ next: NEXT.options }));
const NETWORKS6: readonly Variant[] = [
  ['IPv6 with TCP', {}],
  ['IPv6 with UDP', { protocol: NEXT.udp, payload: UDP }],
  ['hop-by-hop', { extensions: [{ next: NEXT.hop }] }],
  ['routing', { extensions: [{ next: NEXT.routing, bytes: 24 }] }],
  ['destination options', { extensions: [{ next: NEXT.options, bytes: 16 }] }],
  ['authentication header', { extensions: [{ next: NEXT.ah, bytes: 24 }] }],
  ['first fragment', { extensions: [{ next: NEXT.fragment }] }, FRAGMENT],
  ['later fragment', { extensions: [{ next: NEXT.fragment, offset: 185 }] }, FRAGMENT],
  [
    'a chain of all',
    {
      extensions: [
        { next: NEXT.hop },
        { next: NEXT.options },
        { next: NEXT.routing, bytes: 24 },
        { next: NEXT.fragment },
        { next: NEXT.ah, bytes: 24 },
        { next: NEXT.options, bytes: 32 },
      ],
    },
    FRAGMENT,
  ],
  ['eight extension headers', { extensions: options(8) }],
  ['nine extension headers', { extensions: options(9) }, DEEP],
  ['longest extension header', { extensions: [{ next: NEXT.options, bytes: 2048 }] }],
];

/** Every network variant behind every link variant, from this source. */
function* combined(from: string, networks: readonly Variant[]): Generator<Variant> {
  for (const [link, links] of LINKS) {
    for (const [network, packet, noted] of networks) {
      yield [`${link}, ${network}`, { ...links, ...packet, from }, noted];
    }
  }
}

const TABLE: readonly Readonly<{ from: string; networks: readonly Variant[]; into: string }>[] = [
  { from: BANNED4, networks: NETWORKS4, into: 'dropped.bannedNet' },
  { from: BANNED6, networks: NETWORKS6, into: 'dropped.bannedNet' },
  { from: '198.51.100.7', networks: NETWORKS4, into: 'dropped.banned' },
  { from: '2001:db8:9:9:ffff::1', networks: NETWORKS6, into: 'dropped.banned' },
  { from: '203.0.112.255', networks: NETWORKS4, into: 'passed.judged' },
  { from: '203.0.114.0', networks: NETWORKS4, into: 'passed.judged' },
  { from: '198.51.100.8', networks: NETWORKS4, into: 'passed.judged' },
  { from: '2001:db8:0:ffff::1', networks: NETWORKS6, into: 'passed.judged' },
  { from: '2001:db8:2::1', networks: NETWORKS6, into: 'passed.judged' },
  { from: '2001:db8:9:8::1', networks: NETWORKS6, into: 'passed.judged' },
];

t.test('the source decides, whatever headers lie around it', skip, async (t) => {
  const filter = tryOut(t, UNCAPPED);
  await filter.commit(BANS);
  for (const { from, networks, into } of TABLE) {
    const wrong: unknown[] = [];
    const look = async ([name, packet, noted = {}]: Variant): Promise<void> => {
      const bytes = frame(packet);
      const got = await filter.packet(bytes);
      const wanted = { [into]: 1, ...noted };
      const verdict = into.startsWith('dropped') ? 'drop' : 'pass';
      const right = verdict === got.verdict && got.bytes[into] === bytes.length;
      const same = JSON.stringify(got.counters) === JSON.stringify(wanted);
      if (!right || !same) wrong.push({ name, got, wanted });
    };
    await Promise.all([...combined(from, networks)].map(look));
    t.same(wrong, [], `${from}: ${into} in every variant`);
  }
});

t.test('a frame cut off at any byte is judged as soon as its source is whole', skip, async (t) => {
  const filter = tryOut(t, UNCAPPED);
  await filter.commit(BANS);
  const variants = [...combined(BANNED4, SHORT4), ...combined(BANNED6, NETWORKS6.slice(0, -1))];
  const wrong: unknown[] = [];
  let cuts = 0;
  for (const [name, packet] of variants) {
    const bytes = frame(packet);
    const look = async (length: number): Promise<void> => {
      const { verdict, counters } = await filter.packet(bytes.subarray(0, length));
      const known = length >= knownFrom(packet);
      const right = known
        ? verdict === 'drop' && counters['dropped.bannedNet'] === 1
        : verdict === 'pass' && counters['passed.malformed'] === 1;
      if (!right) wrong.push({ name, length, verdict, counters });
      cuts++;
    };
    await Promise.all(Array.from({ length: bytes.length - 14 }, (_, more) => look(14 + more)));
  }
  t.same(wrong.slice(0, 5), [], `${cuts} cut frames`);
});

t.test('what must never be dropped passes whatever is banned', skip, async (t) => {
  const management = ['--management', '192.0.2.0/24', '--management', '2001:db8:aaaa::/48'];
  const filter = tryOut(t, ['--packet-cap', '1', '--syn-cap', '1', ...management]);
  const bans = ['192.0.2.0/24', '2001:db8::/32', '198.51.0.0/16'].map((net) => ({ net }));
  await filter.commit(bans, [{ net: '198.51.100.7' }, { net: '198.51.7.0/24' }, { net: '2001:db8:7::/64' }]);
  const discovery = (type: number, more: Packet = {}): Packet => ({
    from: '2001:db8::5',
    protocol: NEXT.icmp6,
    hopLimit: 255,
    payload: Buffer.from([type, 0, 0, 0]),
    ...more,
  });
  const CASES: readonly (readonly [name: string, packet: Packet, into: string])[] = [
    ['ARP', {}, 'passed.arp'],
    ['ARP behind a tag', { tags: [Q] }, 'passed.arp'],
    ['another protocol', { etherType: 0x88cc, payload: Buffer.alloc(40) }, 'passed.notIp'],
    ...[133, 134, 135, 136, 137].map((type) => {
      return [`neighbour discovery ${type}`, discovery(type), 'passed.neighbourDiscovery'] as const;
    }),
    ['neighbour discovery behind a tag', discovery(135, { tags: [Q] }), 'passed.neighbourDiscovery'],
    ['ICMPv6 echo', discovery(128), 'dropped.bannedNet'],
    ['type 132', discovery(132), 'dropped.bannedNet'],
    ['type 138', discovery(138), 'dropped.bannedNet'],
    ['discovery that came through a router', discovery(135, { hopLimit: 254 }), 'dropped.bannedNet'],
    ['fragmented discovery', discovery(135, { extensions: [{ next: NEXT.fragment }] }), 'dropped.bannedNet'],
    ['link-local', { from: 'fe80::1' }, 'passed.linkLocal'],
    ['the end of link-local', { from: 'febf:ffff::1' }, 'passed.linkLocal'],
    ['beyond link-local', { from: 'fec0::1', payload: ACK }, 'passed.judged'],
    ['management', { from: '192.0.2.77' }, 'passed.management'],
    ['management, IPv6', { from: '2001:db8:aaaa:1::1' }, 'passed.management'],
    ['allowed address in a banned network', { from: '198.51.100.7' }, 'passed.allowed'],
    ['allowed network in a banned network', { from: '198.51.7.200' }, 'passed.allowed'],
    ['allowed /64 in a banned network', { from: '2001:db8:7::99' }, 'passed.allowed'],
    ['its neighbour', { from: '2001:db8:7:1::99' }, 'dropped.bannedNet'],
    ['neighbour of the allowed address', { from: '198.51.100.8' }, 'dropped.bannedNet'],
  ];
  for (const [name, packet, into] of CASES) {
    const { verdict, counters } = await filter.packet(frame(packet), 3);
    const repeated = into === 'passed.judged' ? 1 : 3;
    t.equal(counters[into], repeated, `${name}: ${into}`, { counters });
    if (repeated === 3) t.equal(verdict, into.startsWith('passed') ? 'pass' : 'drop', `${name}: verdict`);
  }
});

t.test('more VLAN tags than the parser walks are dropped and counted, unless configured to pass', skip, async (t) => {
  const CHOICES: readonly (readonly [args: readonly string[], verdict: string, into: string])[] = [
    [[], 'drop', 'dropped.deepVlan'],
    [['--deep-vlan', 'drop'], 'drop', 'dropped.deepVlan'],
    [['--deep-vlan', 'pass'], 'pass', 'passed.deepVlan'],
  ];
  for (const [args, verdict, into] of CHOICES) {
    const filter = tryOut(t, args);
    for (const vlan of [0, 100]) {
      const got = await filter.packet(frame({ tags: Array<number>(9).fill(Q), vlan, from: '10.0.0.1' }));
      t.equal(got.verdict, verdict, `${args.join(' ')}: verdict`);
      t.same(got.counters, { [into]: 1 }, `${args.join(' ')}: counter`);
    }
  }
});

t.test('tags lift no cap', skip, async (t) => {
  const filter = tryOut(t, ['--syn-cap', '10', '--syn-window-ms', '60000']);
  for (const [index, count] of [0, 5, 8].entries()) {
    const tags = Array<number>(count).fill(Q);
    const got = await filter.packet(frame({ tags, vlan: 0, from: `10.0.0.${index}` }), 30);
    t.match(got.counters, { 'passed.judged': 10, 'dropped.synCap': 20 }, `${count} tags`);
  }
});

t.test('an IPv4 address inside an IPv6 source is never valid on the wire', skip, async (t) => {
  const management = ['--management', '10.0.0.0/8', '--management', '::/1'];
  const filter = tryOut(t, management);
  await filter.commit([], [{ net: '10.77.0.2' }]);
  const discovery = { protocol: NEXT.icmp6, hopLimit: 255, payload: Buffer.from([135, 0, 0, 0]) };
  const CASES: readonly (readonly [packet: Packet, into: string])[] = [
    [{ from: '::ffff:a4d:2' }, 'dropped.invalidSource'],
    [{ from: '::ffff:0:0' }, 'dropped.invalidSource'],
    [{ from: '::a4d:2' }, 'dropped.invalidSource'],
    [{ from: '::2' }, 'dropped.invalidSource'],
    [{ from: '::1' }, 'passed.management'],
    [{ from: '::' }, 'passed.management'],
    [{ from: '::', ...discovery }, 'passed.neighbourDiscovery'],
    [{ from: '::1:0:0' }, 'passed.management'],
    [{ from: '64:ff9b::a4d:2' }, 'passed.management'],
  ];
  for (const [packet, into] of CASES) {
    const got = await filter.packet(frame(packet));
    t.same(got.counters, { [into]: 1 }, `${packet.from}: ${into}`);
    t.equal(got.verdict, into.startsWith('dropped') ? 'drop' : 'pass');
  }
});

t.test('malformed headers pass to the stack, which discards them', skip, async (t) => {
  const filter = tryOut(t);
  await filter.commit(BANS);
  const short = frame({ from: BANNED4 });
  short[14] = 0x44;
  const six = frame({ from: BANNED4 });
  six[14] = 0x65;
  const four = frame({ from: BANNED6 });
  four[14] = 0x40;
  for (const [name, bytes] of [
    ['an IPv4 header of 16 bytes', short],
    ['IPv6 under the type of IPv4', six],
    ['IPv4 under the type of IPv6', four],
  ] as const) {
    const got = await filter.packet(bytes);
    t.same([got.verdict, got.counters], ['pass', { 'passed.malformed': 1 }], name);
  }
});

t.test('a dry run counts what it would drop and drops nothing', skip, async (t) => {
  const filter = tryOut(t, ['--dry-run', 'on', '--syn-cap', '5', '--packet-cap', '7', '--deep-vlan', 'drop']);
  await filter.commit(BANS);
  const CASES: readonly (readonly [packet: Packet, counters: Record<string, number>])[] = [
    [{ from: BANNED4 }, { 'wouldDrop.bannedNet': 9 }],
    [{ from: '198.51.100.7' }, { 'wouldDrop.banned': 9 }],
    [{ from: '10.0.0.1' }, { 'passed.judged': 5, 'wouldDrop.synCap': 4, 'noted.event': 1 }],
    [
      { from: '2001:db8:5::1', payload: ACK },
      { 'passed.judged': 7, 'wouldDrop.packetCap': 2, 'noted.event': 1 },
    ],
    [{ from: BANNED4, tags: Array<number>(9).fill(Q) }, { 'wouldDrop.deepVlan': 9 }],
    [{ from: '::ffff:a00:1' }, { 'wouldDrop.invalidSource': 9 }],
  ];
  for (const [packet, counters] of CASES) {
    const got = await filter.packet(frame(packet), 9);
    t.equal(got.verdict, 'pass');
    t.same(got.counters, counters);
  }
});

t.test('only a SYN without ACK, or what may be one, counts against the SYN cap', skip, async (t) => {
  const filter = tryOut(t, ['--syn-cap', '10', '--packet-cap', '0', '--syn-window-ms', '60000']);
  const fragment = { offset: 0, more: true };
  const hop = { next: NEXT.hop };
  const CASES: readonly (readonly [name: string, packet: Packet, counted: boolean])[] = [
    ['SYN', { payload: SYN }, true],
    ['SYN with ECN flags', { payload: tcp(0xc2) }, true],
    ['SYN and ACK', { payload: tcp(0x12) }, false],
    ['ACK', { payload: ACK }, false],
    ['RST', { payload: tcp(0x04) }, false],
    ['no flags', { payload: tcp(0) }, false],
    ['UDP', { protocol: NEXT.udp, payload: UDP }, false],
    ['a SYN in a first fragment', { fragment }, true],
    ['a first fragment too small for flags', { fragment, payload: SYN.subarray(0, 8) }, true],
    ['a later fragment that looks like a SYN', { fragment: { offset: 3, more: false } }, false],
    ['a SYN behind options', { options: 40 }, true],
    ['a SYN behind two tags', { tags: [AD, Q] }, true],
  ];
  const CASES6: typeof CASES = [
    ['IPv6 SYN', {}, true],
    ['IPv6 ACK', { payload: ACK }, false],
    ['SYN behind extension headers', { extensions: [hop, { next: NEXT.options, bytes: 24 }] }, true],
    ['ACK behind extension headers', { extensions: [hop, ...options(7)], payload: ACK }, false],
    ['too many headers to see', { extensions: options(9), payload: ACK }, true],
    ['a later fragment', { extensions: [{ next: NEXT.fragment, offset: 9 }] }, false],
    ['ESP', { protocol: 50 }, false],
  ];
  const cases = [
    ...CASES.map((one, index) => [`10.0.1.${index}`, ...one] as const),
    ...CASES6.map((one, index) => [`2001:db8:${100 + index}::1`, ...one] as const),
  ];
  for (const [from, name, packet, counted] of cases) {
    const got = await filter.packet(frame({ ...packet, from }), 11);
    t.equal(got.counters['dropped.synCap'] ?? 0, counted ? 1 : 0, name, got);
    t.equal(got.counters['passed.judged'], counted ? 10 : 11, `${name}: the others pass`);
  }
  const hidden = await filter.packet(frame({ from: '10.9.9.9', fragment, payload: SYN.subarray(0, 13) }));
  t.match(hidden.counters, HIDDEN, 'hidden flags are noted');
});
