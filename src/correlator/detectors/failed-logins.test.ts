import t from 'tap';
import {
  background,
  innocents,
  launch,
  LOOK_ALIKES,
  observation,
  START_MS,
  stuffing,
  together,
} from '../testing/index.js';
import { createFailedLogins } from './failed-logins.js';
import { failedLoginsSection } from './login-config.js';
import { follow, play, reopened } from './testing.js';

const config = failedLoginsSection.parse({});
const detector = createFailedLogins(config);
const MINUTE = 60_000;
const HOUR = 60 * MINUTE;

t.test('58 addresses with five failed logins each within a minute are found, with evidence', async (test) => {
  const { traffic, attackers } = stuffing();
  const { detections } = play(detector, traffic);
  test.equal(detections.length, 1);
  const [found] = detections;
  test.equal(found!.pattern, 'failed logins on shop POST /login');
  test.ok(found!.confidence >= config.banAt && found!.confidence <= 1, `${found!.confidence}`);
  test.same(new Set(found!.suspects.map(({ subject }) => subject.value)), attackers);
  test.match(found!.counts, { addresses: 58, failures: 290, accepted: 0, goodLogins: 0 });
  test.ok(Math.abs(found!.counts['usersTried']! - 290) < 30);
  test.match(found!.summary, /^58 addresses failed 290 logins on shop POST \/login, each at least 4 /);
  const ofOne = traffic.filter(({ key }) => key === found!.suspects[0]!.subject.value);
  test.same(found!.suspects[0], {
    subject: { kind: 'network', value: ofOne[0]!.key },
    evidence: {
      count: 5,
      firstSeenMs: ofOne[0]!.timeMs,
      lastSeenMs: ofOne.at(-1)!.timeMs,
      requestIds: ofOne.slice(0, 2).map(({ requestId }) => requestId),
    },
  });
  test.equal(found!.firstSeenMs, traffic[0]!.timeMs);
  test.equal(found!.lastSeenMs, traffic.at(-1)!.timeMs);
});

t.test('an attack is found among all look-alikes, and nobody but attackers is banned', async (test) => {
  const at = START_MS + 5 * MINUTE;
  const crowd = innocents({ lengthMs: 12 * MINUTE });
  const rows = [
    ['58 × 5 in a minute', stuffing({ startMs: at })],
    ['58 × 4 on another endpoint', stuffing({ startMs: at, each: 4, path: '/api/v1/auth', status: 422 })],
    ['IPv6', stuffing({ startMs: at, v6: true })],
    ['300 × 8 over ten minutes', stuffing({ startMs: at, addresses: 300, each: 8, lengthMs: 10 * MINUTE })],
    [
      'with two in a hundred getting in',
      stuffing({ startMs: at, each: 30, luck: 0.02, lengthMs: 10 * MINUTE }),
    ],
    ['a form that comes back with 200', stuffing({ startMs: at, path: '/wp-login.php', status: 200 })],
  ] as const;
  for (const [name, { traffic, attackers }] of rows) {
    const { banned, atMs } = follow(detector, together(crowd, traffic), config);
    const caught = [...attackers].filter((key) => banned.has(key)).length;
    test.ok(caught >= 0.95 * attackers.size, `${name}: ${caught} of ${attackers.size}`);
    // Who never got the password right in four attempts, while an attack goes on, is one of thousands.
    test.ok([...banned].filter((key) => !attackers.has(key)).length <= 3, `${name}: nobody else`);
    test.notOk(banned.has('203.0.113.50'), `${name}: the office is spared`);
    if (traffic.length === 290) {
      const last = traffic.at(-1)!.timeMs;
      test.ok(Math.min(...atMs.values()) <= last + 10_000, `${name}: within ten seconds of the last`);
    }
  }
});

t.test('4 300 logins of 58 addresses in an hour are found, also in ordinary traffic', async (test) => {
  const { traffic, attackers } = stuffing({ each: 75, lengthMs: HOUR });
  const { banned } = follow(detector, together(background({ lengthMs: HOUR }, 20), traffic), config);
  test.equal([...attackers].filter((key) => banned.has(key)).length, 58);
  test.ok(banned.size <= 60);
});

t.test('no look-alike is banned, alone or all at once', async (test) => {
  const lengthMs = 10 * MINUTE;
  for (const [name, make] of Object.entries({ ...LOOK_ALIKES, background, innocents }))
    test.same(play(detector, make({ lengthMs, seed: 2 })).detections, [], name);
  const rush = LOOK_ALIKES.launch({ lengthMs: 5 * MINUTE }, 12_000);
  test.equal(follow(detector, rush, { banAt: 0 }).banned.size, 0, 'a launch four times as big');
});

t.test('the number of addresses, failures and good logins decides', async (test) => {
  const found = (over: Parameters<typeof stuffing>[0]): number =>
    play(detector, stuffing(over).traffic).detections.length;
  test.equal(found({ addresses: 19 }), 0);
  test.equal(found({ addresses: 20 }), 1);
  test.equal(found({ each: 3 }), 0);
  test.equal(found({ status: 500 }), 0, "the origin's trouble is nobody's fault");
  test.equal(found({ status: 404 }), 0);
  test.equal(found({ path: '/api/auth/refresh' }), 0, 'an expired token is no login');
  test.equal(found({ path: '/users/4711/sign_in/' }), 1);
  test.equal(found({ luck: 0.3, each: 12 }), 0, 'they get in');
});

t.test(
  'thousands that fail once or twice each with one tool are found, the others are spared',
  async (test) => {
    const crowd = innocents({ lengthMs: 14 * MINUTE });
    const over = { startMs: START_MS + 2 * MINUTE, lengthMs: 10 * MINUTE, addresses: 2_000, each: 1 };
    const { traffic, attackers } = stuffing(over);
    const { banned, first } = follow(detector, together(crowd, traffic), {
      banAt: config.banAt,
      everyMs: 30_000,
    });
    test.ok(banned.size >= 0.9 * attackers.size, `${banned.size}`);
    test.same(
      [...banned].filter((key) => !attackers.has(key)),
      [],
    );
    test.match([...first.values()][0]?.summary, /each at least 1 and/);
    // An outage of the login: everybody fails, with what they always use.
    const outage = launch({ lengthMs: 5 * MINUTE }, 12_000).map((seen) =>
      seen.method === 'POST' ? { ...seen, status: 401, upstreamStatus: 401 } : seen,
    );
    const once = new Map(outage.filter(({ method }) => method === 'POST').map((seen) => [seen.key, seen]));
    test.same(play(detector, [...once.values()]).detections, [], 'an outage, each tries once');
  },
);

t.test('split over partitions, or saved and opened at any point, the same suspects', async (test) => {
  const traffic = together(
    background({ lengthMs: 10 * MINUTE }),
    stuffing({ each: 9, lengthMs: 5 * MINUTE }).traffic,
  );
  const plain = ({ detections }: ReturnType<typeof play>): string =>
    JSON.stringify(
      detections.map(({ suspects, counts, confidence }) => [
        suspects.map(({ subject, evidence: { count, firstSeenMs, lastSeenMs } }) => [
          subject.value,
          count,
          firstSeenMs,
          lastSeenMs,
        ]),
        counts,
        confidence,
      ]),
    );
  const one = play(detector, traffic);
  test.equal(one.detections.length, 1);
  for (const partitions of [3, 12]) test.equal(plain(play(detector, traffic, { partitions })), plain(one));
  for (const reopenEvery of [977, 3_001, 15_013]) {
    const other = play(detector, traffic, { reopenEvery });
    test.equal(JSON.stringify(other.detections), JSON.stringify(one.detections));
    test.equal(JSON.stringify(other.parts[0]!.save()), JSON.stringify(one.parts[0]!.save()));
    test.equal(other.parts[0]!.size(), one.parts[0]!.size());
  }
  test.throws(() => detector.open(['other/1', 0, []]));
  test.throws(() => detector.open({ a: 1 }));
});

t.test(
  'memory stays bounded under a flood of addresses and of endpoints, and what is lost is counted',
  async (test) => {
    const small = createFailedLogins(failedLoginsSection.parse({ entriesMax: 500 }));
    const part = small.open();
    for (let at = 0; at < 5_000; at++) {
      part.observe(
        observation({
          ...stuffing({ addresses: 1, each: 1 }).traffic[0]!,
          key: `10.0.${at >> 8}.${at & 255}`,
        }),
      );
    }
    test.equal(part.size(), 500);
    test.equal(part.dropped(), 4_500);
    const letter = (at: number): string => String.fromCharCode(97 + (at % 26));
    const { traffic } = stuffing({ each: 20 });
    const flood = Array.from({ length: 5_000 }, (_, at) => ({
      ...traffic[0]!,
      timeMs: START_MS + at * 12,
      path: `/${letter(at)}${letter(at / 26)}${letter(at / 676)}/login`,
    }));
    const wide = detector.open();
    for (const seen of together(traffic, flood)) wide.observe(seen);
    test.ok(wide.size() <= 100 + 58, `${wide.size()}`);
    test.ok(wide.dropped() > 4_000);
    const [found] = detector.evaluate([wide], START_MS + MINUTE);
    test.equal(found?.pattern, 'failed logins on shop POST /login', 'the attacked one is not kept out');
    test.equal(reopened(detector, wide).dropped(), wide.dropped());
  },
);

t.test('what it explains is the endpoint itself', async (test) => {
  const [found] = play(detector, stuffing().traffic).detections;
  test.ok(found!.explains(observation({ path: '/login' })));
  test.notOk(found!.explains(observation({ path: '/cart' })));
  test.notOk(found!.explains(observation({ path: '/login', site: 'blog' })));
});
