import t from 'tap';
import type { Observation } from '../../core/observation.js';
import { ipv4, people, together, tries, usualLogins, type Tries } from '../testing/index.js';
import { createFailedLogins } from './failed-logins.js';
import { failedLoginsSection } from './login-config.js';
import { follow, play, reopened } from './testing.js';

const config = failedLoginsSection.parse({});
const detector = createFailedLogins(config);
const MINUTE = 60_000;
const HOUR = 60 * MINUTE;

const banned = (...traffic: readonly Observation[][]): string[] => [
  ...follow(detector, together(...traffic), config).banned,
];
const nobody = (): undefined => undefined;
const weak = (path: string, over: Partial<Tries> = {}): Observation[] =>
  people({ each: 8, everyMs: 10_000, user: nobody, path: () => path, ...over });

t.test('people whose login fails are not banned, whatever the reason', async (test) => {
  const usual = usualLogins();
  const rows: Record<string, readonly Observation[][]> = {
    'an outage answered with 401': [people({ each: 6 })],
    'the day when passwords expire': [people({ each: 5, status: () => 403, everyMs: 20_000 })],
    'who got in an hour ago, all with one browser': [
      people({ addresses: 60, each: 1, atMs: 5 * MINUTE, status: () => 302, software: () => 'chromium' }),
      people({ addresses: 60, each: 5, software: () => 'chromium' }),
    ],
    'phones with an old password': [
      tries({ from: 90, each: 1, status: () => 200, path: () => '/oauth/token', software: () => 'dav' }),
      tries({ addresses: 25, each: 6, everyMs: 10 * MINUTE, software: () => 'dav', user: (at) => `u${at}` }),
    ],
    'a tool made browsers send forms from elsewhere': [people({ user: nobody, session: nobody })],
    'an app with expired tokens': [weak('/oauth/token', { software: () => 'app', session: nobody })],
    'bridges with a revoked key': [weak('/device/auth', { software: () => 'bridge', session: nobody })],
    'a film that is not shown here': [weak('/drm/session', { status: () => 403 })],
    'carts that do not pass': [weak('/checkout/session', { status: () => 422 })],
    'a page that asks in vain for a token': [weak('/api/auth/token')],
  };
  for (const [name, traffic] of Object.entries(rows)) test.same(banned(usual, ...traffic), [], name);
});

t.test('where all use one browser, an outage is told by the good logins that stay away', async (test) => {
  const same = { software: () => 'chromium', session: nobody };
  const usual = usualLogins({ ...same, apartMs: 7_000, addresses: 500 });
  const late = { atMs: 59 * MINUTE, apartMs: 400 };
  const failing = people({ ...same, ...late, addresses: 90, each: 5, everyMs: 15_000 });
  test.same(banned(usual, failing), []);
  const goingOn = usualLogins({ ...same, apartMs: 7_000, addresses: 600 });
  test.equal(banned(goingOn, failing).length, 90, 'while others get in it is none');
});

t.test('an attack is found in an outage and on a fresh gate, and only its addresses', async (test) => {
  const crowd = people({ addresses: 60, each: 6 });
  const office = usualLogins({ addresses: 1, each: 30, everyMs: 2 * MINUTE });
  const rows: Record<string, readonly Observation[][]> = {
    'beside people whose login fails': [usualLogins(), crowd, tries()],
    'one user from each address': [usualLogins(), crowd, tries({ user: (at) => `one-${at}` })],
    'the same without any past': [tries({ user: (at) => `one-${at}` })],
    'the same beside an office': [office, tries({ user: (at) => `one-${at}` })],
    'all with the software that people have': [
      usualLogins({ software: () => 'tool', session: nobody, addresses: 130 }),
      tries({ user: (at) => `one-${at}` }),
    ],
    'with the sessions and browsers of people': [
      usualLogins(),
      tries({ software: (at) => (at % 2 ? 'chromium' : 'gecko'), session: (at) => `made-up-${at}` }),
    ],
    '4 300 in an hour': [usualLogins(), tries({ each: 75, everyMs: 48_000, atMs: 0, user: (at) => `${at}` })],
  };
  for (const [name, traffic] of Object.entries(rows)) {
    const found = banned(...traffic);
    test.equal(found.length, 58, name);
    test.ok(found.every((key) => key.startsWith('45.')), `${name}: nobody else`);
  }
  const [detection] = play(detector, together(usualLogins(), crowd, tries())).detections;
  test.ok(Math.abs(detection!.counts['usersTried']! - 290) < 30, 'only users of suspects are counted');
});

t.test('no way of spelling, spreading or mixing hides an attack', async (test) => {
  const spellings = ['/login', '/lo%67in', '/LOGIN;x=1', '//login', '/login%20', '/login.'];
  const names = ['/api/login/submit', '/api/userLogin', '/account/doLogin', '/j_login.do', '/login_check'];
  const pathOf = (list: readonly string[]) => (at: number) => list[at % list.length]!;
  const rows: Record<string, Partial<Tries>> = {
    spellings: { path: (_, attempt) => spellings[attempt % 6]! },
    'four paths, 19 addresses each': {
      addresses: 76,
      path: pathOf(['/login', '/login.php', '/de/login', '/a/login']),
    },
    'twenty tenants': {
      each: 60,
      everyMs: 5_000,
      path: (_, attempt) => `/t${'abcdefghijklmnopqrst'[attempt % 20]}/login`,
    },
    'an account of its own, then nine others': {
      each: 30,
      status: (_, attempt) => (attempt % 10 ? 401 : 302),
      user: (at, attempt) => (attempt % 10 ? `victim-${at}-${attempt}` : 'own'),
    },
    '19 addresses that do nothing else': { addresses: 19, each: 60, everyMs: 10_000 },
    PUT: { method: 'PUT' },
    'locked accounts': { status: () => 423 },
    ...Object.fromEntries(names.map((path) => [path, { path: () => path }])),
  };
  for (const [name, over] of Object.entries(rows))
    test.equal(banned(usualLogins(), tries(over)).length, over.addresses ?? 58, name);
  for (const path of ['/login/refresh', '/logout', '/api/auth/refresh', '/blog/in'])
    test.same(banned(tries({ path: () => path })), [], path);
});

t.test('an endpoint of its own kind is told by the config', async (test) => {
  const over = { method: 'GET', path: () => '/Admin/', status: () => 302 };
  test.same(banned(tries(over)), []);
  const endpoints = [{ path: '/admin', methods: ['GET'], failed: [302] }];
  const told = createFailedLogins(failedLoginsSection.parse({ endpoints }));
  test.equal(follow(told, tries(over), config).banned.size, 58);
});

t.test('a flood of addresses that try once does not hide those that go on', async (test) => {
  const small = createFailedLogins(failedLoginsSection.parse({ entriesMax: 1_000 }));
  const part = small.open();
  const flood = tries({ addresses: 6_000, each: 1, apartMs: 20, from: 30, status: () => 302, user: nobody });
  for (const seen of together(flood, tries({ each: 20, everyMs: 6_000 }))) part.observe(seen);
  test.ok(part.size() <= 1_100 && part.dropped() >= 5_000, `${part.size()}, ${part.dropped()}`);
  const nowMs = flood.at(-1)!.timeMs;
  const [found] = small.evaluate([reopened(small, part)], nowMs);
  const suspects = found!.suspects.map(({ subject }) => subject.value).sort();
  test.same(suspects, Array.from({ length: 58 }, (_, at) => ipv4(45, at)).sort());
});

t.test('in a school some mistype, and most get in from the same address', async (test) => {
  const school = { addresses: 30, apartMs: 1_000, from: 60, each: 12, atMs: HOUR };
  const pupil = (at: number, attempt: number): string => `${at}-${attempt >> 1}`;
  test.same(banned(people({ ...school, user: pupil, status: (_, n) => (n % 2 ? 302 : 401) })), []);
  test.same(banned(people({ ...school, user: nobody, status: (_, n) => (n % 2 ? 302 : 401) })), []);
});
