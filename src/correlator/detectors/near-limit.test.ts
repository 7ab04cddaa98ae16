import t from 'tap';
import type { Observation } from '../../core/observation.js';
import {
  background,
  innocents,
  LOOK_ALIKES,
  observation,
  scraping,
  START_MS,
  together,
} from '../testing/index.js';
import { createNearLimit, nearLimitSection } from './near-limit.js';
import { follow, play, reopened } from './testing.js';

const config = nearLimitSection.parse({});
const detector = createNearLimit(config);
const MINUTE = 60_000;

t.test('forty addresses at 80 to 95 % of a limit are a heap, with evidence', async (test) => {
  const { traffic, attackers } = scraping();
  const { detections } = play(detector, traffic);
  test.equal(detections.length, 1);
  const [found] = detections;
  test.equal(found!.pattern, 'just under the limit pages by ip on shop');
  test.ok(found!.confidence >= config.banAt && found!.confidence <= 1, `${found!.confidence}`);
  test.same(new Set(found!.suspects.map(({ subject }) => subject.value)), attackers);
  test.match(found!.counts, { addresses: 40, below: 0, over: 0, keyed: 0 });
  test.ok(found!.counts['percent']! >= 80 && found!.counts['percent']! <= 95);
  test.match(found!.summary, /^40 addresses kept to about \d\d % of the limit pages by ip on shop /);
  const { subject, evidence } = found!.suspects[0]!;
  const all = traffic.filter(({ key }) => key === subject.value);
  const its = all.filter(({ near }) => near !== undefined);
  const ended = all.filter(({ timeMs }) => timeMs < Math.floor(traffic.at(-1)!.timeMs / MINUTE) * MINUTE);
  test.equal(evidence.count, ended.length, 'all requests of its windows, also those before it was near');
  test.equal(evidence.firstSeenMs, its[0]!.timeMs);
  test.equal(evidence.lastSeenMs, its.at(-1)!.timeMs);
  test.equal(evidence.requestIds.length, 5);
  test.ok(evidence.requestIds.every((id) => its.some(({ requestId }) => requestId === id)));
  test.ok(found!.explains(its[0]!), 'what the scraper got does not speak for it');
  test.notOk(found!.explains({ ...its[0]!, userAgent: 'somebody else behind it' }));
});

t.test('it is found within minutes among all look-alikes, and nobody else is banned', async (test) => {
  const crowd = innocents({ lengthMs: 12 * MINUTE });
  const at = START_MS + 3 * MINUTE;
  const lengthMs = 8 * MINUTE;
  const thin = (_: number, random: number) => -8 * Math.log(1 - random);
  const client = (at: number) => ({ agent: { userAgent: `reader ${at % 9}`, headers: 'r' } });
  const tail = scraping({ addresses: 300, first: 24, rate: thin, lengthMs, client });
  const rows = [
    ['a scraper', scraping({ startMs: at, lengthMs })],
    [
      'with other requests in between',
      scraping({ startMs: at, lengthMs, rate: (index) => 50 + (index % 7) }),
    ],
    ['in a natural tail', scraping({ startMs: at, lengthMs, addresses: 60 })],
    [
      'with a new session for each request',
      scraping({ startMs: at, lengthMs, client: (index, turn) => ({ session: `${index}-${turn}-${at}` }) }),
    ],
  ] as const;
  for (const [name, { traffic, attackers }] of rows) {
    const others = name === 'in a natural tail' ? [crowd, tail.traffic] : [crowd];
    const { banned, atMs } = follow(detector, together(...others, traffic), {
      banAt: config.banAt,
      everyMs: 20_000,
    });
    const caught = [...attackers].filter((key) => banned.has(key)).length;
    test.ok(caught >= 0.9 * attackers.size, `${name}: ${caught}`);
    test.same([...banned].filter((key) => !attackers.has(key)).length, 0, `${name}: nobody else`);
    test.ok(Math.min(...atMs.values()) <= at + 4 * MINUTE, `${name}: in the third minute`);
  }
});

t.test('what has no heap is left alone', async (test) => {
  const none = (name: string, over: Parameters<typeof scraping>[0]): void => {
    const { detections } = play(detector, scraping(over).traffic);
    test.equal(detections.filter(({ confidence }) => confidence >= config.banAt).length, 0, name);
  };
  none('nineteen addresses', { addresses: 19 });
  none('two minutes', { lengthMs: 2 * MINUTE });
  for (const mean of [10, 20, 35])
    none(`a tail with a mean of ${mean}`, {
      addresses: 500,
      rate: (_, random) => -mean * Math.log(1 - random),
    });
  none('a heap that goes over', { rate: (_, random) => 55 + 20 * random });
  none('as many that stay at 65 %', { addresses: 100, rate: (index) => (index % 2 === 0 ? 52 : 39) });
  // A carrier's exits, evenly loaded by its customers.
  const customer = (index: number, turn: number) => ({ session: `c${index}-${turn % 20}` });
  none('exits that people share', { rate: () => 51, client: customer });
  const partner = (index: number) => ({ apiKey: `k${index}` });
  none('customers who heed the RateLimit fields', { rate: () => 54, client: partner });
});

t.test('no look-alike is held to be just under a limit, alone or all at once', async (test) => {
  for (const [name, make] of Object.entries({ ...LOOK_ALIKES, background, innocents }))
    test.same(play(detector, make({ lengthMs: 10 * MINUTE, seed: 5 })).detections, [], name);
});

/** Over a limit of 60 in 10 s; `ask` makes what an address asks for at the start of a window, or nothing. */
type Ask = (address: number, window: number) => readonly Partial<Observation>[];

function tenSeconds(addresses: number, ask: Ask, windows = 36): Observation[] {
  const made: Observation[] = [];
  for (let window = 0; window < windows; window++) {
    for (let address = 0; address < addresses; address++) {
      const ip = `77.${address >> 8}.${address & 255}.5`;
      for (const [at, over] of ask(address, window).entries()) {
        const used = at + 1;
        const near = { policy: 'ingress', by: 'ip', used, limit: 60, windowMs: 10_000 };
        made.push(
          observation({
            ...{ timeMs: START_MS + window * 10_000 + at * 160, requestId: `${address}-${window}-${at}` },
            ...{ ip, near: used >= 36 ? near : undefined, ...over },
          }),
        );
      }
    }
  }
  return made.sort((a, b) => a.timeMs - b.timeMs);
}
const times = (count: number, make: (at: number) => Partial<Observation>): Partial<Observation>[] =>
  Array.from({ length: count }, (_, at) => make(at));

t.test('people with pictures, games, pollers and walls of screens are left alone', async (test) => {
  const client = (at: number) => ({ session: `s${at}`, userAgent: `browser ${at % 4}` });
  const rows: readonly (readonly [string, number, Ask])[] = [
    [
      'a page with 47 pictures every minute',
      24,
      (at, window) =>
        window % 6 === 0
          ? times(48, (n) => ({ ...client(at), path: n === 0 ? `/gallery/${window}` : `/thumb/${window}-${n}.jpg` }))
          : [],
    ],
    [
      'a page with 50 calls, every third window',
      24,
      (at, window) =>
        window % 3 === 0 ? times(51, (n) => ({ ...client(at), path: `/api/picture/${window}-${n}` })) : [],
    ],
    ['a game', 30, (at) => times(50, () => ({ session: `s${at}`, path: '/api/match/state' }))],
    ['a client that throttles itself', 30, (at) => times(47, () => ({ ...client(at), path: '/api/stock/4711' }))],
    [
      'a wall of screens',
      25,
      (at) => times(48, (n) => ({ session: `${at} ${n % 4}`, path: `/panel/${n % 12}` })),
    ],
  ];
  for (const [name, addresses, ask] of rows) {
    const { banned, first } = follow(detector, tenSeconds(addresses, ask, 40), { banAt: 0 });
    test.same([banned.size, first.size], [0, 0], name);
  }
});

t.test('who walks just under a short limit is found in the fourth minute, by ended windows', async (test) => {
  const walk: Ask = (at, window) => times(55, (n) => ({ path: `/item/${at * 7_919 + window * 60 + n}` }));
  const { banned, atMs, first } = follow(detector, tenSeconds(30, walk), { banAt: config.banAt });
  test.equal(banned.size, 30);
  test.ok(Math.min(...atMs.values()) >= START_MS + 3 * MINUTE);
  test.ok(Math.max(...atMs.values()) <= START_MS + 4 * MINUTE);
  const [found] = first.values();
  test.equal(found!.suspects[0]!.evidence.count, 18 * 55, 'true to the request');
  test.match(found!.summary, /in most of its windows for at least 3 min, hardly ever went over it/);
  const early = tenSeconds(30, walk, 17);
  test.same(play(detector, early).detections, [], 'two minutes and fifty seconds');
  const names: Ask = (at, window) =>
    times(50, (n) => ({ method: 'POST', path: '/login', status: 401, user: `${at}.${window}.${n}` }));
  const tried = follow(detector, tenSeconds(30, names), { banAt: config.banAt });
  test.equal(tried.banned.size, 30, 'user names are walked as well');
});

t.test('people speak for themselves: with a session, or where all have software of their own', async (test) => {
  const client = (index: number) => ({ agent: { userAgent: `reader ${index}`, headers: 'r' } });
  const { traffic } = scraping({ addresses: 60, client });
  const [found] = play(detector, traffic).detections;
  const its = traffic[0]!;
  test.ok(found!.explains(its));
  test.notOk(found!.explains({ ...its, session: 'somebody' }));
  test.notOk(found!.explains({ ...its, path: '/picture.jpg' }));
});

t.test('a long window counts once, and small limits and other identities are passed by', async (test) => {
  const hourly = (limit: number, by = 'ip') =>
    scraping({ lengthMs: 5 * MINUTE }).traffic.map((seen) => {
      if (seen.near === undefined) return seen;
      return {
        ...seen,
        near: { ...seen.near, by, limit, used: Math.round(0.9 * limit), windowMs: 3_600_000 },
      };
    });
  test.same(play(detector, hourly(100)).detections, [], 'one hour is one window');
  test.equal(play(detector, hourly(100)).parts[0]!.size(), 40);
  test.equal(play(detector, hourly(9)).parts[0]!.size(), 0);
  test.equal(play(detector, hourly(100, 'session')).parts[0]!.size(), 0);
  test.equal(play(detector, hourly(100, 'ip+path')).parts[0]!.size(), 40);
});

t.test('split over partitions, or saved and opened at any point, the same suspects', async (test) => {
  const client = (index: number, turn: number) => ({ session: `${index}-${turn % 3}` });
  const { traffic } = scraping({ client, lengthMs: 6 * MINUTE });
  const plain = ({ detections }: ReturnType<typeof play>): string =>
    JSON.stringify(detections, (key, value: unknown) => (key === 'requestIds' ? undefined : value));
  const one = play(detector, traffic);
  test.equal(one.detections.length, 1);
  for (const partitions of [3, 12]) test.equal(plain(play(detector, traffic, { partitions })), plain(one));
  for (const reopenEvery of [377, 2_003]) {
    const other = play(detector, traffic, { reopenEvery });
    test.equal(JSON.stringify(other.detections), JSON.stringify(one.detections));
    test.equal(JSON.stringify(other.parts[0]!.save()), JSON.stringify(one.parts[0]!.save()));
  }
  test.throws(() => detector.open(['nearLimit/1', 0, 0, [['x']]]));
});

t.test('memory stays bounded, and what is lost is counted', async (test) => {
  const part = createNearLimit(nearLimitSection.parse({ entriesMax: 500 })).open();
  const near = { policy: 'p', by: 'ip', used: 90, limit: 100, windowMs: 60_000 };
  for (let at = 0; at < 6_000; at++)
    part.observe(observation({ near, key: `10.0.${at >> 8}.${at & 255}`, timeMs: START_MS + at * 20 }));
  test.ok(part.size() <= 500);
  test.ok(part.dropped() >= 5_000);
  for (let at = 0; at < 1_000; at++)
    part.observe(
      observation({ near: { ...near, policy: `q${at}`, used: 1e300 }, timeMs: START_MS + 120_000 }),
    );
  test.ok(part.size() <= 500 + 256);
  test.equal(reopened(detector, part).dropped(), part.dropped());
  const later = observation({ near, timeMs: START_MS + 3_600_000 });
  const before = part.dropped();
  part.observe(later);
  test.equal(part.dropped(), before, 'policies of old make room');
  test.equal(part.size(), 1);
});
