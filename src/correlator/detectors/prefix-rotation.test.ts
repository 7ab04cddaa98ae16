import t from 'tap';
import { parseNetwork } from '../../core/address.js';
import type { Observation } from '../../core/observation.js';
import { createCidrSet } from '../../structures/cidr-set.js';
import {
  background,
  innocents,
  LOOK_ALIKES,
  observation,
  openScene,
  rotation,
  span,
  START_MS,
  together,
} from '../testing/index.js';
import { createPrefixRotation, prefixRotationSection } from './prefix-rotation.js';
import { networkOf, prefixReader } from './prefixes.js';
import { follow, play, reopened } from './testing.js';

const config = prefixRotationSection.parse({});
const detector = createPrefixRotation(config);
const MINUTE = 60_000;

t.test('a prefix that takes a new /64 every three requests is found, with evidence', async (test) => {
  const { traffic } = rotation();
  const { detections } = play(detector, traffic);
  test.equal(detections.length, 1);
  const [found] = detections;
  test.equal(found!.pattern, 'rotation inside 2001:db8:bad::/48');
  test.ok(found!.confidence >= config.banAt && found!.confidence <= 1, `${found!.confidence}`);
  test.equal(found!.suspects.length, 1);
  const { subject, evidence } = found!.suspects[0]!;
  test.same(subject, { kind: 'network', value: '2001:db8:bad::/48' });
  test.match(evidence, {
    count: 1500,
    firstSeenMs: traffic[0]!.timeMs,
    lastSeenMs: traffic.at(-1)!.timeMs,
    requestIds: traffic.slice(0, 2).map(({ requestId }) => requestId),
  });
  test.ok(Math.abs(found!.counts['networks']! / 500 - 1) < 0.1, `${found!.counts['networks']}`);
  test.match(
    found!.summary,
    /^About \d+ \/64 networks of 2001:db8:bad::\/48 sent 1500 requests, \d\.\d each /,
  );
  test.match(found!.summary, /nearly all asked for shop GET \/p\/:n/);
  test.ok(found!.explains(traffic[0]!));
  test.notOk(found!.explains({ ...traffic[0]!, session: 'a customer' }));
  test.notOk(found!.explains({ ...traffic[0]!, ip: '2001:db8:bae::1' }));
});

t.test('the ban is the narrowest prefix that holds it', async (test) => {
  const value = (prefix: number): string | undefined =>
    play(detector, rotation({ prefix }).traffic).detections[0]?.suspects[0]?.subject.value;
  test.equal(value(56), '2001:db8:bad::/56');
  test.equal(value(52), '2001:db8:bad::/52');
  const wide = createPrefixRotation(prefixRotationSection.parse({ prefix: 32 }));
  test.equal(play(wide, rotation().traffic).detections[0]?.pattern, 'rotation inside 2001:db8::/32');
});

const own = (userAgent: string) => () => ({ agent: { userAgent, headers: 'own' } });

t.test('it is found among all look-alikes, and nobody else is banned', async (test) => {
  const crowd = innocents({ lengthMs: 20 * MINUTE });
  const at = START_MS + 3 * MINUTE;
  const thrownAway = (network: number) => ({ session: `s${network}` });
  const urls = ['/p/', '/c/', '/img/', '/s/', '/t/', '/brand/'];
  const rows = [
    ['one URL, calls itself a browser', {}, 6],
    ['a tool with a name of its own', { client: own('python-requests/2.32') }, 6],
    ['a session for each /64, thrown away', { client: thrownAway }, 6],
    ['logins, all of which fail', { login: true }, 6],
    ['many URLs', { urls, lengthMs: 16 * MINUTE }, 16],
    ['slowly', { requests: 400, lengthMs: 16 * MINUTE, perNetwork: 1 }, 16],
  ] as const;
  for (const [name, over, minutes] of rows) {
    const { traffic } = rotation({ startMs: at, ...over });
    const around = crowd.filter(({ timeMs }) => timeMs < at + (minutes + 1) * MINUTE);
    const { banned, atMs } = follow(detector, together(around, traffic), {
      banAt: config.banAt,
      everyMs: 30_000,
    });
    test.same([...banned], ['2001:db8:bad::/48'], name);
    test.ok([...atMs.values()][0]! <= at + minutes * MINUTE, `${name}: ${minutes} minutes`);
  }
});

/** An app on the phones of a carrier's customers: one URL every quarter of an hour, no cookies. */
function widget(lengthMs: number, elsewhere: number): Observation[] {
  const scene = openScene('widget', span({ lengthMs }));
  const { dice } = scene;
  const agent = { userAgent: 'WeatherWidget/3.1 okhttp/4.12', headers: 'okhttp' };
  for (let at = 0; at < 400 + elsewhere; at++) {
    const place = at < 400 ? '2001:db8:a001' : `2001:db8:${(0x5000 + dice.int(200)).toString(16)}`;
    const ip = `${place}:${(1 + dice.int(65_534)).toString(16)}::1`;
    const client = { ip, asn: 64_520, agent, site: 'weather' };
    for (let atMs = START_MS + dice.next() * 900_000; atMs < START_MS + lengthMs; atMs += 900_000)
      scene.ask(client, atMs, 'call', { path: '/v1/now' });
  }
  return scene.sorted();
}

t.test('homes inside the prefix are left out of the ban', async (test) => {
  const { traffic } = rotation({ requests: 900 });
  const homes = [0x1234, 0x8000, 0xfff0].flatMap((home, at) =>
    Array.from({ length: 20 }, (_, turn) =>
      observation({
        timeMs: START_MS + turn * 15_000,
        ip: `2001:db8:bad:${home.toString(16)}::99`,
        session: `home-${at}`,
        path: `/account/${turn}`,
      }),
    ),
  );
  const all = together(traffic, homes);
  const [found] = play(detector, all).detections;
  test.ok(found!.confidence >= config.banAt);
  test.match(found!.summary, /Spared: 3 \/64s where a session lasts/);
  const pieces = createCidrSet();
  for (const { subject } of found!.suspects) pieces.add(parseNetwork(subject.value)!);
  test.notOk(homes.some(({ ip }) => pieces.has(ip)));
  const held = traffic.filter(({ ip }) => pieces.has(ip)).length;
  test.ok(held >= 0.98 * traffic.length, `${held}`);
});

/** Phones of one carrier, one software for nearly all, no cookie: a pushed article, an app start, a box. */
function phones(userAgent: string, each: number, path: (at: number) => string): Observation[] {
  const scene = openScene('phones', span({ lengthMs: 25 * MINUTE }));
  const agent = { userAgent, headers: 'one' };
  for (let at = 0; at < 700; at++) {
    const client = { ip: `2001:db8:a001:${(at * 40).toString(16)}::1`, asn: 64_520, agent, site: 'news' };
    const startMs = START_MS + scene.dice.next() * 5 * MINUTE;
    for (let turn = 0; turn < each; turn++)
      scene.ask(client, startMs + turn * 5 * MINUTE, 'page', { path: path(at + turn) });
  }
  return scene.sorted();
}

t.test('phones that do what they are told are watched, not banned', async (test) => {
  const android = 'Mozilla/5.0 (Linux; Android 10; K) Chrome/131.0.0.0 Mobile Safari/537.36';
  const rows = [
    ['a pushed article', phones(android, 1, (at) => `/news/article-${at % 9}`)],
    ['an app start', phones('MyCarrier/5.1 CFNetwork/1568', 1, () => '/api/balance')],
    ['boxes', phones('IspBox/2.0', 5, () => '/epg/now')],
  ] as const;
  for (const [name, traffic] of rows) {
    const { detections } = play(detector, traffic);
    test.equal(detections.length, 1, name);
    test.ok(detections[0]!.confidence <= 0.7, name);
  }
});

t.test('customers of carriers and providers are left alone', async (test) => {
  for (const [name, make] of Object.entries({ ...LOOK_ALIKES, background, innocents }))
    test.same(play(detector, make({ lengthMs: 6 * MINUTE, seed: 5 })).detections, [], name);
  const many = LOOK_ALIKES.carrier({ lengthMs: 10 * MINUTE }, 6_000);
  test.same(play(detector, many).detections, [], 'hundreds of customers in each /48');
  const wide = createPrefixRotation(prefixRotationSection.parse({ prefix: 32 }));
  test.same(play(wide, many).detections, [], 'thousands in its /32');
  const noCookies = many.map((seen) => ({ ...seen, session: undefined, user: undefined }));
  test.same(play(detector, noCookies).detections, [], 'a site without sessions');
  test.same(play(detector, widget(30 * MINUTE, 2_000)).detections, [], 'an app without sessions');
});

t.test('the number of /64s and what each does decides', async (test) => {
  const found = (over: Parameters<typeof rotation>[0]): number =>
    play(detector, rotation(over).traffic).detections.length;
  test.equal(found({ requests: 240 }), 0, 'eighty networks');
  test.equal(found({ requests: 6_000, perNetwork: 40 }), 0, 'forty requests of each are seen by limits');
  test.equal(found({ client: (network) => ({ session: `s${network % 20}` }) }), 0, 'sessions that last');
  test.equal(found({ client: (network) => ({ ip: `fd00::${network.toString(16)}:0:0:0:1` }) }), 0, 'inside');
});

t.test('prefixes of 32 to 56 bits are read and written', async (test) => {
  const rows = [
    [32, '2001:db8::/32'],
    [40, '2001:db8:ab00::/40'],
    [48, '2001:db8:abcd::/48'],
    [56, '2001:db8:abcd:ef00::/56'],
  ] as const;
  for (const [prefix, text] of rows)
    test.equal(networkOf(prefixReader(prefix)('2001:db8:abcd:ef01::9')!.id, prefix), text);
  test.equal(networkOf(prefixReader(56)('3fff:ffff:ffff:ff01::9')!.id, 56), '3fff:ffff:ffff:ff00::/56');
  for (const ip of ['fe80::1', '::1', '192.0.2.1', 'x']) test.equal(prefixReader(48)(ip), undefined);
});

t.test('split over partitions, or saved and opened at any point, the same suspects', async (test) => {
  const client = (network: number) => ({ session: `s${network}` });
  const lengthMs = 10 * MINUTE;
  const traffic = together(
    background({ lengthMs }, 20),
    rotation({ client, lengthMs, requests: 3_000 }).traffic,
  );
  const suspects = ({ detections }: ReturnType<typeof play>) =>
    detections.map(({ suspects: [one], pattern, counts }) => [
      pattern,
      one!.subject,
      one!.evidence.count,
      one!.evidence.firstSeenMs,
      one!.evidence.lastSeenMs,
      counts['networks'],
    ]);
  const one = play(detector, traffic);
  test.equal(one.detections.length, 1);
  for (const partitions of [3, 12])
    test.same(suspects(play(detector, traffic, { partitions })), suspects(one));
  for (const reopenEvery of [1_377, 6_003]) {
    const other = play(detector, traffic, { reopenEvery });
    test.equal(JSON.stringify(other.detections), JSON.stringify(one.detections));
    test.equal(JSON.stringify(other.parts[0]!.save()), JSON.stringify(one.parts[0]!.save()));
  }
  test.throws(() => detector.open(['prefixRotation/1', 0, [[1, [[1]]]]]));
});

t.test(
  'memory stays bounded under a flood of prefixes and tools, and what is lost is counted',
  async (test) => {
    const part = createPrefixRotation(prefixRotationSection.parse({ prefixesMax: 50 })).open();
    const { traffic } = rotation();
    for (let at = 0; at < 3_000; at++) {
      part.observe(traffic[at % 1500]!);
      part.observe(observation({ ip: `2001:db8:${at.toString(16)}::1`, userAgent: `t${at}` }));
    }
    test.ok(part.size() <= 100);
    test.ok(part.dropped() > 2_000);
    test.ok(JSON.stringify(part.save()).length < 100_000);
    test.equal(play(detector, traffic).detections.length, 1);
    test.equal(
      detector.evaluate([reopened(detector, part)], traffic.at(-1)!.timeMs).length,
      1,
      'the big one stays',
    );
  },
);
