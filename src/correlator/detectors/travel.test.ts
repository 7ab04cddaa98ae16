import t from 'tap';
import type { Observation } from '../../core/observation.js';
import type { Place } from '../../core/place.js';
import type { Saved } from '../detector.js';
import { sameInPartitions, survivesSaving, watch } from '../testing-detectors.js';
import { background, innocents, LOOK_ALIKES, observation, START_MS, together } from '../testing/index.js';
import { createTravel, travelSection } from './travel.js';

const MINUTE = 60_000;

/** Documentation and private networks by their first two numbers. */
const PLACES: Readonly<Record<string, Place>> = {
  '10.1': { latitude: 51.5, longitude: -0.1, radiusKm: 50 },
  '10.2': { latitude: 35.7, longitude: 139.7, radiusKm: 50 },
  '10.3': { latitude: -33.9, longitude: 151.2, radiusKm: 50 },
  '10.4': { latitude: 40.7, longitude: -74, radiusKm: 50 },
  '10.5': { latitude: -23.5, longitude: -46.6, radiusKm: 50 },
  '10.6': { latitude: 48.9, longitude: 2.4, radiusKm: 50 },
  '10.7': { latitude: 51.9, longitude: -1.3, radiusKm: 500 },
};
const place = (ip: string): Place | undefined => PLACES[ip.split('.', 2).join('.')];

const detector = createTravel(travelSection.parse({}), place);

type Hop = readonly [atMs: number, ip: string, asn?: number];

const session = (name: string, hops: readonly Hop[]): Observation[] =>
  hops.map(([atMs, ip, asn], index) =>
    observation({
      timeMs: START_MS + atMs,
      ip,
      key: ip,
      asn,
      session: name,
      requestId: `${name}-${index}`,
      path: `/item/${index}`,
    }),
  );

/** A cookie shared out over proxies in five cities, a request every few seconds. */
const shared = (name: string, requests: number): Observation[] =>
  session(
    name,
    Array.from({ length: requests }, (_, at) => [at * 7_000, `10.${1 + ((at * 3) % 5)}.0.${1 + (at % 200)}`]),
  );

t.test('a session that is in five cities at once is banned, with what it did', async (test) => {
  const traffic = together(background({ lengthMs: 10 * MINUTE }), shared('stolen', 60));
  const { found, banned } = watch(detector, traffic);
  test.same([...banned], ['session:stolen']);
  const { best, banAtMs } = found.get('session stolen in far places at once')!;
  test.ok(banAtMs! - START_MS <= 2 * MINUTE, 'within two minutes');
  test.match(best, { detector: 'travel', confidence: 0.95, counts: { places: 5 } });
  test.match(best.summary, /in 5 places at least 1000 km apart, with \d+ moves faster than 1000 km\/h/);
  const { evidence } = best.suspects[0]!;
  test.ok(evidence.count >= 10 && evidence.requestIds.length === 5);
  test.match(evidence.requestIds[0]!, /^stolen-\d+$/);
  test.ok(best.explains(observation({ session: 'stolen' })));
  test.notOk(best.explains(observation({ session: 'other' })), 'others are not explained by it');
  test.notOk(best.explains(observation({ session: undefined })));
});

t.test('where no place is known, many operators in turn give it away', async (test) => {
  const blind = createTravel(travelSection.parse({}), () => undefined);
  const hops = Array.from({ length: 40 }, (_, at): Hop => [
    at * 10_000,
    `10.9.${at % 7}.1`,
    64_500 + (at % 7),
  ]);
  const { found, banned } = watch(blind, together(background(), session('spread', hops)));
  test.same([...banned], ['session:spread']);
  test.match([...found.values()][0]!.best.summary, /from 7 networks in turn, \d+ changes within ten minutes/);
});

/** A check from five hosters, logged in once: three URLs each minute, one place after the other. */
const check = (over: (turn: number, call: number) => Partial<Observation> = () => ({})): Observation[] =>
  Array.from({ length: 180 }, (_, at) => {
    const turn = Math.floor(at / 3);
    const ip = `10.${1 + (turn % 5)}.0.1`;
    return observation({
      timeMs: START_MS + turn * MINUTE + (at % 3) * 1_000,
      ip,
      key: ip,
      asn: 61_000 + (turn % 5),
      userAgent: 'SynthMon/1.0',
      session: 'check',
      path: `/check/${at % 3}`,
      ...over(turn, at % 3),
    });
  });

t.test('a check from five regions is told but not banned', async (test) => {
  const { found, banned } = watch(detector, check());
  test.equal(found.size, 1);
  const { best } = [...found.values()][0]!;
  test.match(best, { confidence: 0.7, summary: /as a check or somebody behind changing exits/ });
  test.same([...banned], []);
});

t.test('its way of asking does not help whoever uses a stolen session for more', async (test) => {
  const rows = {
    'different software': (turn: number) => ({ userAgent: `Tool/${turn % 2}` }),
    'many URLs': (turn: number, call: number) => ({ path: `/orders/${turn * 3 + call}` }),
  };
  for (const [name, over] of Object.entries(rows))
    test.same([...watch(detector, check(over)).banned], ['session:check'], name);
  const anyTurn = check((turn) => ({ ip: `10.${1 + ((turn * turn) % 5)}.0.${turn}`, key: `k${turn}` }));
  test.same([...watch(detector, anyTurn).banned], ['session:check'], 'addresses that change');
});

const PEOPLE: Readonly<Record<string, readonly Hop[]>> = {
  'a VPN switched on and off twice a day': [0, 1, 2, 3].flatMap((turn): Hop[] =>
    Array.from({ length: 30 }, (_, at) => [
      turn * 4 * 60 * MINUTE + at * 20_000,
      turn % 2 === 0 ? '10.1.0.1' : '10.2.0.1',
    ]),
  ),
  'a traveller who flies from London to New York': Array.from({ length: 40 }, (_, at) => [
    at < 20 ? at * MINUTE : 8 * 60 * MINUTE + at * MINUTE,
    at < 20 ? '10.1.0.1' : '10.4.0.1',
  ]),
  'a commuter between near places': Array.from({ length: 60 }, (_, at) => [
    at * 20_000,
    at % 2 === 0 ? '10.1.0.1' : '10.6.0.1',
  ]),
  'a place that is known within 500 km only': Array.from({ length: 60 }, (_, at) => [
    at * 20_000,
    at % 2 === 0 ? '10.1.0.1' : '10.7.0.1',
  ]),
  'a carrier with gateways on three continents': Array.from({ length: 60 }, (_, at) => [
    at * 20_000,
    `10.${1 + (at % 4)}.0.1`,
    64_500,
  ]),
  'a relay over three operators': Array.from({ length: 60 }, (_, at) => [
    at * 20_000,
    `10.${1 + (at % 4)}.0.1`,
    [13_335, 36_183, 54_113][at % 3]!,
  ]),
  'a phone between home, work, train and two carriers within an hour': Array.from({ length: 60 }, (_, at) => [
    at * MINUTE,
    `10.1.${Math.floor(at / 12)}.1`,
    64_500 + Math.floor(at / 12),
  ]),
  'a reader behind Tor, whose exit changes every ten minutes': Array.from({ length: 42 }, (_, at) => [
    Math.floor(at / 3) * 10 * MINUTE + (at % 3) * MINUTE,
    `10.${1 + (Math.floor(at / 3) % 6)}.0.1`,
  ]),
  'four exits of a VPN tried one after the other': Array.from({ length: 48 }, (_, at) => [
    at * 4_000,
    `10.${1 + Math.floor(at / 12)}.0.1`,
  ]),
};

for (const [who, hops] of Object.entries(PEOPLE)) {
  t.test(`${who} is not banned`, async (test) => {
    const { banned } = watch(detector, session('person', hops), { everyMs: 5 * MINUTE });
    test.same([...banned], []);
  });
}

t.test('two places in turn, as of a split tunnel, are told but not banned', async (test) => {
  const hops = Array.from({ length: 200 }, (_, at): Hop => [at * 15_000, `10.${1 + (at % 2)}.0.1`]);
  const { found, banned } = watch(detector, session('tunnel', hops));
  test.same([...banned], []);
  test.ok([...found.values()][0]!.best.confidence <= 0.7);
});

t.test('what is late counts for no way back', async (test) => {
  const hops = Array.from({ length: 50 }, (_, at): Hop =>
    at % 2 === 0 ? [60_000 + at, '10.2.0.1'] : [at, `10.${3 + (at % 3)}.0.1`],
  );
  test.equal(watch(detector, session('slow', hops)).found.size, 0);
});

t.test('none of the look-alikes is even suspect', async (test) => {
  const blind = createTravel(travelSection.parse({}), () => undefined);
  for (const [name, make] of Object.entries(LOOK_ALIKES)) {
    test.equal(watch(blind, make({ lengthMs: 30 * MINUTE }), { everyMs: MINUTE }).found.size, 0, name);
  }
  test.same([...watch(detector, innocents()).banned], []);
});

t.test('API keys are left alone unless the config says else', async (test) => {
  const traffic = shared('x', 60).map((one) => ({ ...one, session: undefined, apiKey: 'key-1' }));
  test.equal(watch(detector, traffic).found.size, 0);
  const strict = createTravel(travelSection.parse({ apiKeys: true }), place);
  test.same([...watch(strict, traffic).banned], ['apiKey:key-1']);
});

t.test('places are looked up only when the address of a session changes', async (test) => {
  let lookups = 0;
  const counting = createTravel(travelSection.parse({}), (ip) => {
    lookups += 1;
    return place(ip);
  });
  watch(
    counting,
    session(
      'calm',
      Array.from({ length: 500 }, (_, at): Hop => [at * 1000, '10.1.0.1']),
    ),
  );
  test.equal(lookups, 0);
  watch(counting, shared('busy', 60));
  test.ok(lookups <= 61, `${lookups}`);
});

t.test('saved parts, and parts of several partitions, come to the same end', async (test) => {
  const traffic = together(
    background({ lengthMs: 5 * MINUTE }, 20),
    shared('stolen', 40),
    shared('other', 40),
  );
  survivesSaving(detector, traffic);
  test.equal(sameInPartitions(detector, traffic).length, 2);
  const odd: readonly Saved[] = ['x', 7, { dropped: 0 }, { dropped: 0, sweptMs: 0, entries: [['a']] }];
  for (const saved of odd) test.throws(() => detector.open(saved));
});

t.test('a flood of new sessions stays within its bound and does not hide one that moves', async (test) => {
  const small = createTravel(travelSection.parse({ keep: 500 }), place);
  const flood = Array.from({ length: 20_000 }, (_, at) =>
    observation({ timeMs: START_MS + at * 20, session: `new-${at}`, ip: '192.0.2.1' }),
  );
  const { banned, parts } = watch(small, together(flood, shared('stolen', 60)));
  test.same([...banned], ['session:stolen']);
  test.ok(parts[0]!.size() <= 500);
  test.ok(parts[0]!.dropped() > 19_000);
  survivesSaving(small, together(flood, shared('stolen', 60)).slice(0, 3_000));
});
