import t from 'tap';
import type { Observation } from '../../core/observation.js';
import type { Saved } from '../detector.js';
import { sameInPartitions, survivesSaving, watch } from '../testing-detectors.js';
import { walk } from '../testing-scrapers.js';
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
import { createRegularTiming, regularTimingSection } from './regular-timing.js';

const MINUTE = 60_000;
const detector = createRegularTiming(regularTimingSection.parse({}));
const NO_SESSION = { ip: '10.30.0.1', key: '10.30.0.1', session: undefined };

t.test('it observes unless the config says else', async (test) => {
  test.equal(regularTimingSection.parse(undefined).mode, 'observe');
});

t.test('a walk through the pages at an even pace is found, with what it did', async (test) => {
  const traffic = together(background({ lengthMs: 15 * MINUTE }), walk());
  const { found, banned } = watch(detector, traffic);
  test.same([...banned], ['session:walker']);
  const { best, banAtMs } = found.get('even pace of session walker')!;
  test.ok(banAtMs! - START_MS <= 6 * MINUTE);
  test.match(best.summary, /^\d+ new pages and forms in \d+ min as a browser, \d+ % of the last \d+ gaps/);
  test.ok(best.suspects[0]!.evidence.count >= 60);
  test.match(best.suspects[0]!.evidence.requestIds, [/^walk-/, /^walk-/, /^walk-/, /^walk-/, /^walk-/]);
  test.ok(best.explains(observation({ session: 'walker' })));
  test.notOk(best.explains(observation({})));
});

const MACHINES: Readonly<Record<string, () => Observation[]>> = {
  'with a pause that varies by a fifth': () => walk({ jitter: 0.2 }),
  'without a session, from one address': () => walk({ client: NO_SESSION }),
  'a login every five seconds': () =>
    walk({ pauseMs: 5_000, path: () => '/login', client: { ...NO_SESSION, method: 'POST', status: 401 } }),
  'a page with its calls every six seconds': () =>
    walk({ pauseMs: 6_000, jitter: 0.1 }).flatMap((page, at) => [
      page,
      { ...page, timeMs: page.timeMs + 350, path: `/api/p/${at}` },
      { ...page, timeMs: page.timeMs + 600 + (at % 7) * 90, path: `/api/p/${at}/price` },
    ]),
  'a poll in the same session beside it': () =>
    together(walk(), walk({ seed: 2, pauseMs: 1_700, path: () => '/api/news' })),
};
for (const [name, make] of Object.entries(MACHINES)) {
  t.test(`found too: ${name}`, async (test) => {
    const { banned } = watch(detector, make());
    test.equal(banned.size, 1, [...banned].join(' '));
  });
}

t.test('an even pace that varies by half, or as chance has it, is not told from a person', async (test) => {
  const dice = createDice(7);
  const byChance = walk({ lengthMs: 10 * MINUTE });
  let timeMs = START_MS;
  const scattered = byChance.map((one) => ({
    ...one,
    timeMs: (timeMs += Math.ceil(dice.exponential(4_000))),
  }));
  test.equal(watch(detector, scattered).found.size, 0);
  test.equal(watch(detector, walk({ jitter: 0.5 })).found.size, 0);
});

function readers(): Observation[] {
  const scene = openScene('readers', span({ lengthMs: 60 * MINUTE }));
  for (let at = 0; at < 200; at++) {
    const agent = { userAgent: 'Mozilla/5.0 (X11; Linux x86_64) Firefox/144.0', headers: 'gecko' };
    const client = { ip: '203.0.113.90', asn: 64_510, agent, site: 'shop', session: `reader-${at}` };
    visit(scene, client, START_MS + at * 1_000, { pages: 200, readMs: 9_000, known: true });
  }
  return scene.sorted();
}

const AGENT = walk()[0]!.userAgent;
const INNOCENT: Readonly<Record<string, () => Observation[]>> = {
  'people who read for an hour': readers,
  'a page that polls one URL for an hour, while its person looks at fifty others': () => {
    const dice = createDice(11);
    let timeMs = START_MS;
    const pages = Array.from({ length: 50 }, (_, at) =>
      observation({
        timeMs: (timeMs += dice.logNormal(45_000, 0.8)),
        session: 'walker',
        userAgent: AGENT,
        path: `/p/${at}`,
      }),
    );
    return together(
      walk({ lengthMs: 60 * MINUTE, pauseMs: 10_000, path: () => '/api/notifications' }),
      pages,
    );
  },
  'an event stream that is opened again every thirty seconds': () =>
    walk({ lengthMs: 60 * MINUTE, pauseMs: 30_000, path: () => '/events' }),
  'a forgotten tab whose heartbeat is answered with 401': () =>
    walk({
      lengthMs: 60 * MINUTE,
      path: () => '/api/session/refresh',
      client: { session: 'tab', method: 'POST', status: 401 },
    }),
  'a film in pieces of six seconds': () => walk({ pauseMs: 6_000, path: (step) => `/film/seg-${step}.m4s` }),
  'a service worker that fetches a hundred files at once': () =>
    walk({ lengthMs: 12_000, pauseMs: 100, path: (step) => `/offline/page-${step}` }),
  'a client with a key': () => walk({ client: { ip: '10.30.0.2', key: '10.30.0.2', apiKey: 'key' } }),
  'a crawler that names itself': () =>
    walk({
      client: {
        ...NO_SESSION,
        userAgent: 'Mozilla/5.0 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)',
      },
    }),
  'a script that names itself': () => walk({ client: { ...NO_SESSION, userAgent: 'python-requests/2.32' } }),
};
for (const [name, make] of Object.entries(INNOCENT)) {
  t.test(`not suspect: ${name}`, async (test) => {
    test.equal(watch(detector, make(), { everyMs: MINUTE }).found.size, 0);
  });
}

t.test('none of the look-alikes is suspect, alone and together', async (test) => {
  for (const [name, make] of Object.entries(LOOK_ALIKES)) {
    const { found } = watch(detector, make({ lengthMs: 30 * MINUTE }), { everyMs: MINUTE });
    test.same(
      [...found.values()].map(({ best }) => best.summary),
      [],
      name,
    );
  }
  test.equal(watch(detector, innocents({ lengthMs: 20 * MINUTE }), { everyMs: MINUTE }).found.size, 0);
});

t.test('an address that others use too is not banned for one of them', async (test) => {
  const office = Array.from({ length: 900 }, (_, at) =>
    observation({
      timeMs: START_MS + at * 1_000,
      ip: '10.30.0.1',
      session: `colleague-${at % 30}`,
      path: '/',
    }),
  );
  test.equal(watch(detector, together(office, walk({ client: NO_SESSION }))).found.size, 0);
});

t.test('saved parts, and parts of several partitions, come to the same end', async (test) => {
  const machines = [walk(), walk({ seed: 2, client: { ip: '10.30.0.9', key: '10.30.0.9' } })];
  const traffic = together(background({ lengthMs: 5 * MINUTE }, 20), ...machines);
  survivesSaving(detector, traffic);
  test.equal(sameInPartitions(detector, traffic).length, 2);
  const odd: readonly Saved[] = ['x', 7, { walkers: 1 }, { totals: { even: 1 } }];
  for (const saved of odd) test.throws(() => detector.open(saved));
});

t.test('a flood of new clients stays within its bound and does not hide one that walks', async (test) => {
  const small = createRegularTiming(regularTimingSection.parse({ keep: 500 }));
  const flood = Array.from({ length: 40_000 }, (_, at) =>
    observation({ timeMs: START_MS + at * 20, session: `new-${at}` }),
  );
  const { banned, parts } = watch(small, together(flood, walk()));
  test.same([...banned], ['session:walker']);
  test.ok(parts[0]!.size() <= 500);
  test.ok(parts[0]!.dropped() > 30_000);
  survivesSaving(small, together(flood, walk()).slice(0, 3_000));
});
