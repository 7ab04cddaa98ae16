import fc from 'fast-check';
import t from 'tap';
import { networkContains, parseNetwork, type Network } from '../core/address.js';
import type { Ban } from '../controls/ban.js';
import { createRangeSet } from './ranges.js';
import { differenceOf, severityOf, wantedOf, type KernelEntry, type SyncRules } from './sync.js';
import { banOf } from './testing.js';

const RUNS = Number(process.env['FUZZ_RUNS'] ?? 300);

const rules = (change: Partial<SyncRules> = {}): SyncRules => ({
  nowMs: 1000,
  widest: { ipv4: 8, ipv6: 17 },
  ipv6Prefix: 64,
  protected: createRangeSet([]),
  entriesMax: 1000,
  ...change,
});

const nets = (bans: readonly Ban[], change: Partial<SyncRules> = {}): string[] => [
  ...wantedOf(bans, rules(change)).entries.keys(),
];

t.test('only bans of networks that are enforced and still hold reach the kernel', (t) => {
  t.same(
    nets([
      banOf('192.0.2.1'),
      banOf('192.0.2.2', { mode: 'observe' }),
      banOf('192.0.2.3', { mode: 'watch' }),
      banOf('192.0.2.4', { untilMs: 1000 }),
      banOf('x', { subject: { kind: 'session', value: 'abc' } }),
      banOf('x', { subject: { kind: 'ja4', value: '192.0.2.9' } }),
    ]),
    ['192.0.2.1'],
  );
  t.end();
});

t.test('networks are written in one way only', (t) => {
  const cases: [value: string, wanted: string][] = [
    ['203.0.113.77/24', '203.0.113.0/24'],
    ['203.0.113.77/32', '203.0.113.77'],
    ['::ffff:203.0.113.5', '203.0.113.5'],
    ['2001:DB8:1:2:3::4', '2001:db8:1:2::/64'],
    ['2001:db8:1:2::/64', '2001:db8:1:2::/64'],
    ['2001:db8:1::/48', '2001:db8:1::/48'],
  ];
  for (const [value, wanted] of cases) t.same(nets([banOf(value)]), [wanted], value);
  t.end();
});

t.test('what must not be blocked is refused and named', (t) => {
  const guarded = createRangeSet([
    ['198.51.100.7', 'allowlist'],
    ['10.1.0.0/16', 'management'],
    ['2001:db8:5::5', 'own'],
    ['127.0.0.0/8', 'special'],
  ]);
  const cases: [value: string, reason: string, change?: Partial<SyncRules>][] = [
    ['0.0.0.0/0', 'everything'],
    ['::/0', 'everything'],
    ['::ffff:0:0/96', 'everything'],
    ['12.0.0.0/7', 'wide'],
    ['2001::/16', 'wide'],
    ['2001:db8::1', 'narrow', { ipv6Prefix: 128 }],
    ['198.51.100.0/24', 'allowlist'],
    ['198.51.100.7', 'allowlist'],
    ['10.1.2.3', 'management'],
    ['10.0.0.0/8', 'management'],
    ['2001:db8:5::99', 'own'],
    ['127.0.0.1', 'special'],
    ['not a network', 'unreadable'],
    ['1.2.3.4/33', 'unreadable'],
  ];
  for (const [value, reason, change] of cases) {
    const { entries, refused } = wantedOf([banOf(value)], rules({ protected: guarded, ...change }));
    t.equal(entries.size, 0, `${value} is not blocked`);
    t.equal(refused[0]?.reason, reason, `${value}: ${reason}`);
  }
  t.same(nets([banOf('198.51.100.8')], { protected: guarded }), ['198.51.100.8'], 'its neighbour is not');
  t.same(nets([banOf('10.2.0.0/16')], { protected: guarded }), ['10.2.0.0/16']);
  t.end();
});

t.test('an entry within a wider one stays only where it lasts longer', (t) => {
  t.same(nets([banOf('192.0.2.9', { untilMs: 50_000 }), banOf('192.0.2.0/24')]), ['192.0.2.0/24']);
  t.same(nets([banOf('192.0.2.9', { untilMs: 90_000 }), banOf('192.0.2.0/24')]), [
    '192.0.2.0/24',
    '192.0.2.9',
  ]);
  t.same(
    nets([
      banOf('192.0.0.0/16', { untilMs: 80_000 }),
      banOf('192.0.2.0/24', { untilMs: 50_000 }),
      banOf('192.0.2.9', { untilMs: 70_000 }),
    ]),
    ['192.0.0.0/16'],
    'also where the one between ends first',
  );
  const { entries } = wantedOf(
    [banOf('192.0.2.9', { untilMs: 2000 }), banOf('::ffff:192.0.2.9', { untilMs: 9000 })],
    rules(),
  );
  t.same([...entries.values()], [{ net: '192.0.2.9', untilMs: 9000, severity: 1 }], 'of two the longer');
  t.end();
});

t.test('what covers others is as severe as the most severe of them', (t) => {
  const bans = [
    banOf('192.0.2.0/24', { strikes: 1 }),
    banOf('192.0.2.9', { actor: 'ann', untilMs: 50_000 }),
    banOf('192.0.2.10', { strikes: 4 }),
    banOf('203.0.113.1', { strikes: 2 }),
  ];
  const { entries, covered } = wantedOf(bans, rules({ entriesMax: 1 }));
  t.same([...entries.values()], [{ net: '192.0.2.0/24', untilMs: 60_000, severity: 10 }]);
  t.equal(covered, 2);
  t.end();
});

t.test('of too many the most severe stay, then those that last longest', (t) => {
  const bans = [
    banOf('192.0.2.1', { strikes: 1 }),
    banOf('192.0.2.2', { strikes: 3 }),
    banOf('192.0.2.3', { strikes: 1, untilMs: 90_000 }),
    banOf('192.0.2.4', { actor: 'ann', strikes: 0 }),
  ];
  const { entries, refused } = wantedOf(bans, rules({ entriesMax: 3 }));
  t.same([...entries.keys()].sort(), ['192.0.2.2', '192.0.2.3', '192.0.2.4']);
  t.same(refused, [{ net: '192.0.2.1', reason: 'full' }]);
  t.equal(severityOf({ actor: 'ann', strikes: 0 }), 10, 'an operator asked for it');
  t.equal(severityOf({ actor: 'detector:x', strikes: 40 }), 9);
  t.end();
});

/** Few bits, so that networks meet. */
const network = fc.oneof(
  fc
    .tuple(fc.integer({ min: 0, max: 63 }), fc.integer({ min: 24, max: 32 }))
    .map(([low, prefix]) => `192.0.2.${low}/${prefix}`),
  fc
    .tuple(fc.integer({ min: 0, max: 15 }), fc.integer({ min: 44, max: 64 }))
    .map(([low, prefix]) => `2001:db8:0:${low.toString(16)}::/${prefix}`),
);
const bans = fc.array(
  fc
    .tuple(network, fc.integer({ min: 0, max: 12 }), fc.integer({ min: 1, max: 3 }))
    .map(([value, time, strikes]) => banOf(value, { untilMs: time * 1000, strikes })),
  { maxLength: 40 },
);
const addresses = [
  ...Array.from({ length: 64 }, (_, at) => `192.0.2.${at}`),
  ...Array.from({ length: 16 }, (_, at) => `2001:db8:0:${at.toString(16)}::1`),
].map((text) => parseNetwork(text)!);

/** As the kernel looks: the longest prefix alone, then its end. */
function isBlocked(entries: ReadonlyMap<string, KernelEntry>, address: Network, nowMs: number): boolean {
  let longest = -1;
  let untilMs = 0;
  for (const entry of entries.values()) {
    const outer = parseNetwork(entry.net)!;
    if (outer.prefix <= longest || !networkContains(outer, address)) continue;
    longest = outer.prefix;
    untilMs = entry.untilMs;
  }
  return untilMs > nowMs;
}

t.test('property: the longest prefix answers as all bans together would, at every time', (t) => {
  fc.assert(
    fc.property(bans, fc.integer({ min: 1, max: 12 }), (some, time) => {
      const nowMs = time * 1000;
      const { entries } = wantedOf(some, rules());
      const parsed = some.map((ban) => ({ ...ban, network: parseNetwork(ban.subject.value)! }));
      for (const address of addresses) {
        const wanted = parsed.some((one) => one.untilMs > nowMs && networkContains(one.network, address));
        if (isBlocked(entries, address, nowMs) !== wanted) return false;
      }
      return true;
    }),
    { numRuns: RUNS },
  );
  t.end();
});

t.test('property: nothing that is guarded is ever blocked, and every ban is accounted for', (t) => {
  const guarded = fc.array(network, { maxLength: 4 });
  fc.assert(
    fc.property(bans, guarded, fc.integer({ min: 1, max: 20 }), (some, guard, entriesMax) => {
      const set = createRangeSet(guard.map((net) => [net, 'allowlist'] as const));
      const { entries, refused, covered } = wantedOf(some, rules({ protected: set, entriesMax }));
      const inForce = some.filter(({ untilMs }) => untilMs > 1000).length;
      const spared = guard.map((net) => parseNetwork(net)!);
      return (
        entries.size <= entriesMax &&
        entries.size + refused.length + covered === inForce &&
        [...entries.keys()].every((net) => {
          const one = parseNetwork(net)!;
          return spared.every((other) => !networkContains(one, other) && !networkContains(other, one));
        })
      );
    }),
    { numRuns: RUNS },
  );
  t.end();
});

t.test(
  'property: the order of bans does not matter, and a difference leads from one set to the other',
  (t) => {
    fc.assert(
      fc.property(bans, bans, (before, after) => {
        const one = wantedOf(before, rules()).entries;
        const other = wantedOf(after, rules()).entries;
        const turned = wantedOf([...before].reverse(), rules()).entries;
        const { added, removed, changed } = differenceOf(one, other);
        const same = [...other].filter(
          ([net, { untilMs, severity }]) =>
            one.get(net)?.untilMs === untilMs && one.get(net)?.severity === severity,
        );
        return (
          JSON.stringify([...turned]) === JSON.stringify([...one]) &&
          one.size - removed + added === other.size &&
          same.length + added + changed === other.size
        );
      }),
      { numRuns: RUNS },
    );
    t.end();
  },
);

t.test('a hundred thousand bans are worked out in one go', (t) => {
  const many = Array.from({ length: 100_000 }, (_, at) =>
    banOf(`${11 + (at % 89)}.${(at >>> 8) & 255}.${at & 255}.${(at * 7) & 255}`),
  );
  const started = performance.now();
  const { entries } = wantedOf(many, rules({ entriesMax: 200_000 }));
  t.comment(`${Math.round(performance.now() - started)} ms for ${entries.size} entries`);
  t.ok(entries.size > 50_000);
  t.end();
});
