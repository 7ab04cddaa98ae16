import t from 'tap';
import type { Observation } from '../../core/observation.js';
import type { Saved } from '../detector.js';
import { createRoute } from '../route.js';
import { sameInPartitions, survivesSaving, watch } from '../testing-detectors.js';
import { rotation } from '../testing-scrapers.js';
import {
  background,
  createDice,
  innocents,
  LOOK_ALIKES,
  observation,
  openScene,
  span,
  START_MS,
  together,
  visit,
} from '../testing/index.js';
import { createTokenRotation, tokenRotationSection } from './token-rotation.js';

const MINUTE = 60_000;
const detector = createTokenRotation(tokenRotationSection.parse({}), createRoute());

t.test(
  'a scraper that rotates its session every 300 to 400 requests is banned within minutes',
  async (test) => {
    const traffic = together(background({ lengthMs: 20 * MINUTE }), rotation());
    const { found, banned } = watch(detector, traffic);
    test.equal(found.size, 1);
    const [[pattern, { best, banAtMs }]] = [...found] as [[string, { best: never; banAtMs: number }]];
    test.equal(pattern, 'rotated tokens on shop from AS64801, AS64802, AS64803');
    test.comment(`asked for after ${Math.round((banAtMs - START_MS) / 1000)} s`);
    test.ok(banAtMs - START_MS <= 12 * MINUTE);
    for (const ip of ['10.20.0.1', '10.21.0.1', '10.22.0.1']) test.ok(banned.has(`network:${ip}`), ip);
    for (const subject of banned) test.match(subject, /^(?:network:10\.2[012]\.0\.1|session:scraper-)/);
    const { suspects, summary, counts, explains } = best as ReturnType<typeof detector.evaluate>[number];
    test.match(
      summary,
      /^\d+ tokens \(6 are suspect\) with \d+ pages in the same order, 3\d\d each, from AS/,
    );
    test.ok(counts['tokens']! >= 8);
    for (const { evidence } of suspects) {
      test.ok(
        evidence.count >= 60 && evidence.requestIds.length > 0 && evidence.firstSeenMs < evidence.lastSeenMs,
      );
    }
    test.ok(explains(observation({ session: 'scraper-0-0' })));
    test.notOk(explains(observation({ session: 'person' })));
    test.notOk(explains(observation({})));
  },
);

const VARIANTS = {
  'API keys': { kind: 'apiKey' },
  'no ASN known': { asns: [undefined] },
  'one worker that takes a new address for each token': {
    workers: 1,
    asns: [64_801],
    lengthMs: 40 * MINUTE,
    ipOf: (_: number, token: number) => `10.20.0.${token}`,
  },
  'three networks with a handful of addresses each': {
    ipOf: (worker: number, token: number) => `10.2${worker}.0.${1 + (token % 5)}`,
  },
  'a new address for each token': { ipOf: (worker: number, token: number) => `10.20.${worker}.${token}` },
  'a dozen workers, each token with a new address': {
    workers: 12,
    lengthMs: 30 * MINUTE,
    ipOf: (worker: number, token: number) => `10.2${worker % 3}.${worker}.${token}`,
  },
  'slow, 80 to 100 pages each': { perToken: [80, 100], pauseMs: 2_000, lengthMs: 30 * MINUTE },
} as const;
for (const [name, over] of Object.entries(VARIANTS)) {
  t.test(`found too: ${name}`, async (test) => {
    const { banned } = watch(detector, rotation(over), { everyMs: 30_000 });
    test.ok([...banned].some((subject) => subject.startsWith('network:10.2')));
    test.ok([...banned].every((subject) => /scraper|network:10\.2/.test(subject)));
  });
}

/** With 5-minute keys of one partner at one host; runs of tests from three hosts of one provider. */
const partner = (): Observation[] =>
  rotation({ workers: 1, asns: [64_801], perToken: [300, 300], lengthMs: 40 * MINUTE, kind: 'apiKey' });
const runs = (): Observation[] =>
  rotation({
    workers: 1,
    asns: [64_801],
    perToken: [80, 80],
    pauseMs: 1_800,
    lengthMs: 40 * MINUTE,
    ipOf: (_, token) => `10.20.0.${1 + (token % 3)}`,
  });

/** Tills of a chain in three towns: each customer a session, many pages, and an order at the end. */
const tills = (): Observation[] =>
  rotation({ perToken: [60, 75], pauseMs: 3_500, lengthMs: 50 * MINUTE }).map((one, at, all) =>
    at % 40 === 0 || all[at]!.path.endsWith('0') ? { ...one, method: 'POST', path: '/cart' } : one,
  );

for (const [name, make] of Object.entries({ partner, runs, tills })) {
  t.test(`told, but not banned: ${name}`, async (test) => {
    const { found, banned } = watch(detector, make(), { everyMs: MINUTE });
    test.ok(found.size > 0 && [...found.values()].every(({ best }) => best.confidence <= 0.7));
    test.same([...banned], []);
  });
}

t.test('forms that it fills in do not help a scraper that is faster than readers', async (test) => {
  const traffic = rotation().map((one, at) => (at % 30 === 0 ? { ...one, method: 'POST' } : one));
  test.ok(watch(detector, traffic, { everyMs: MINUTE }).banned.has('network:10.20.0.1'));
});

t.test('an address that others use too is spared, its tokens are not', async (test) => {
  const office = Array.from({ length: 6_000 }, (_, at) =>
    observation({
      timeMs: START_MS + at * 200,
      ip: '10.20.0.1',
      asn: 64_801,
      session: `colleague-${at % 90}`,
      path: `/page-${at % 13}`,
    }),
  );
  const { banned } = watch(detector, together(office, rotation()));
  test.notOk(banned.has('network:10.20.0.1'));
  test.ok(banned.has('network:10.21.0.1'));
  test.ok([...banned].some((subject) => subject.startsWith('session:scraper-0')));
});

/** A person's hour-long visits, more than enough pages to be looked at. */
function heavyUsers(people: number, asn: number): Observation[] {
  const scene = openScene('heavy', span({ lengthMs: 60 * MINUTE }));
  for (let at = 0; at < people; at++) {
    const client = {
      ip: '203.0.113.80',
      asn,
      agent: { userAgent: 'Mozilla/5.0', headers: 'x' },
      site: 'shop',
      session: `heavy-${at}`,
    };
    const startMs = START_MS + scene.dice.next() * 40 * MINUTE;
    visit(scene, client, startMs, { pages: 40 + scene.dice.int(120), readMs: 6_000, known: true });
  }
  return scene.sorted();
}

/** One person whose short-lived token is renewed every five minutes while a page polls. */
function renewed(): Observation[] {
  return Array.from({ length: 900 }, (_, at) =>
    observation({
      timeMs: START_MS + at * 4_000,
      ip: '203.0.113.81',
      session: `renewed-${Math.floor(at / 75)}`,
      path: at % 10 === 9 ? `/inbox/${at}` : '/api/notifications',
    }),
  );
}

/** One account that signs in anew all the time: perhaps a person whose token is renewed. */
const oneAccount = (): Observation[] => rotation().map((one) => ({ ...one, user: 'account' }));

t.test('one account whose tokens change is told, but not banned', async (test) => {
  const { found, banned } = watch(detector, oneAccount(), { everyMs: MINUTE });
  test.equal(found.size, 1);
  test.same([...banned], []);
});

t.test('a client that shows its key beside its sessions is known by its key', async (test) => {
  const traffic = rotation().map((one) => ({ ...one, apiKey: 'partner' }));
  test.equal(watch(detector, traffic, { everyMs: MINUTE }).found.size, 0);
});

/** An app of one carrier: thousands of short visits, each the same calls at a person's pace. */
function app(): Observation[] {
  const dice = createDice(5);
  const made: Observation[] = [];
  for (let person = 0; person < 800; person++) {
    const key = `100.64.${person % 20}.${person % 200}`;
    let timeMs = START_MS + dice.next() * 50 * MINUTE;
    const calls = 10 + dice.int(110);
    for (let at = 0; at < calls; at++) {
      const path = at % 5 === 0 ? '/api/feed' : `/api/post/${dice.int(100_000)}`;
      made.push(observation({ timeMs, ip: key, key, asn: 64_520, session: `app-${person}`, path }));
      timeMs += dice.logNormal(3_000, 0.8);
    }
  }
  return made.sort((a, b) => a.timeMs - b.timeMs);
}

const INNOCENT = { 'heavy users of one office': () => heavyUsers(60, 64_510), renewed, app };
for (const [name, make] of Object.entries({ ...INNOCENT, ...LOOK_ALIKES })) {
  t.test(`not suspect: ${name}`, async (test) => {
    const traffic = name in LOOK_ALIKES ? LOOK_ALIKES[name as 'office']({ lengthMs: 30 * MINUTE }) : make();
    const { found } = watch(detector, traffic, { everyMs: MINUTE });
    test.same(
      [...found.values()].map(({ best }) => best.summary),
      [],
    );
  });
}

t.test('all of them at once, and ordinary traffic, are not suspect either', async (test) => {
  test.equal(watch(detector, innocents({ lengthMs: 20 * MINUTE }), { everyMs: MINUTE }).found.size, 0);
});

t.test('saved parts, and parts of several partitions, come to the same end', async (test) => {
  const traffic = together(rotation({ lengthMs: 10 * MINUTE }), background({ lengthMs: 3 * MINUTE }, 20));
  survivesSaving(detector, traffic);
  test.equal(sameInPartitions(detector, traffic).length, 1);
  const odd: readonly Saved[] = ['x', 7, { tokens: 1 }, { totals: { even: 1 } }];
  for (const saved of odd) test.throws(() => detector.open(saved));
});

t.test('a flood of new tokens stays within its bound and does not hide the scraper', async (test) => {
  const small = createTokenRotation(tokenRotationSection.parse({ keep: 1_000 }), createRoute());
  const flood = Array.from({ length: 60_000 }, (_, at) =>
    observation({ timeMs: START_MS + at * 20, session: `new-${at}`, ip: `192.0.2.${at % 250}` }),
  );
  const { banned, parts } = watch(small, together(flood, rotation()));
  test.ok(banned.has('network:10.20.0.1'));
  test.ok(parts[0]!.size() <= 1_000);
  test.ok(parts[0]!.dropped() > 50_000);
  survivesSaving(small, together(flood, rotation()).slice(0, 3_000));
});
