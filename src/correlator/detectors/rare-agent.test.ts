import t from 'tap';
import type { Observation } from '../../core/observation.js';
import type { Saved } from '../detector.js';
import {
  background,
  innocents,
  launch,
  LOOK_ALIKES,
  observation,
  openScene,
  span,
  START_MS,
  swarm,
  together,
} from '../testing/index.js';
import { familyOf } from './agents.js';
import { createRareAgent, rareAgentSection } from './rare-agent.js';
import { follow, play, reopened } from './testing.js';

const config = rareAgentSection.parse({});
const detector = createRareAgent(config);
const MINUTE = 60_000;

/** Two ordinary hours, from which it learns; then what the test is about. */
const LATER_MS = START_MS + 100 * MINUTE;
const usual = background({ lengthMs: 100 * MINUTE }, 12);
const from = learned(usual);

function learned(before: readonly Observation[]): Saved {
  const [part] = play(detector, before).parts;
  return part!.save();
}

t.test('a tool over 2 500 addresses is found, with evidence', async (test) => {
  const { traffic, attackers } = swarm({ startMs: LATER_MS });
  const { detections } = play(detector, traffic, { nowMs: LATER_MS + 10 * MINUTE, from });
  test.equal(detections.length, 1);
  const [found] = detections;
  test.equal(found!.pattern, 'rare user agent Mozilla/5.0 (X11; Linux i686) Gecko/20100101 Kraken/9.3');
  test.ok(found!.confidence >= config.banAt && found!.confidence <= 1, `${found!.confidence}`);
  test.same(new Set(found!.suspects.map(({ subject }) => subject.value)), attackers);
  test.ok(found!.suspects.every(({ subject }) => subject.kind === 'network'));
  test.ok(Math.abs(found!.counts['addresses']! / 2_500 - 1) < 0.13);
  test.match(found!.counts, { requests: 5_000, identified: 0, errors: 0, signs: 4 });
  test.match(found!.summary, /^About \d+ addresses came with user agent .*: \d+ % of all, normally 0.00 % /);
  test.match(
    found!.summary,
    /no session lasts; nearly all asked for shop GET \/p\/:n; page after page, hardly one twice; a browser/,
  );
  const { subject, evidence } = found!.suspects[0]!;
  const its = traffic.filter(({ key }) => key === subject.value);
  test.match(evidence, { count: 2, firstSeenMs: its[0]!.timeMs, lastSeenMs: its[1]!.timeMs });
  test.same(evidence.requestIds.toSorted(), its.map(({ requestId }) => requestId).toSorted());
  test.ok(found!.explains(its[0]!));
  test.notOk(found!.explains({ ...its[0]!, path: '/account' }));
});

t.test('it is found among all look-alikes, and nobody else is banned', async (test) => {
  const crowd = innocents({ startMs: LATER_MS, lengthMs: 9 * MINUTE });
  const tool = { userAgent: 'libwww-perl/6.79', headers: 'lwp' };
  const rows = [
    ['in ten minutes', {}],
    ['one request each', { each: 1 }],
    ['a tool whose requests mostly fail', { status: 403, client: () => ({ agent: tool }) }],
    ['without a user agent', { client: () => ({ agent: { userAgent: '', headers: 'x' } }) }],
    ['a new session for each address', { client: (at: number) => ({ session: `s${at}` }) }],
  ] as const;
  for (const [name, over] of rows) {
    const { traffic, attackers } = swarm({ startMs: LATER_MS + MINUTE, lengthMs: 8 * MINUTE, ...over });
    const { banned } = follow(detector, together(crowd, traffic), {
      banAt: config.banAt,
      everyMs: MINUTE,
      from,
    });
    const caught = [...attackers].filter((key) => banned.has(key)).length;
    test.ok(caught >= 0.9 * attackers.size, `${name}: ${caught}`);
    test.equal([...banned].filter((key) => !attackers.has(key)).length, 0, `${name}: nobody else`);
  }
});

/** Thousands of devices, feeds, players or previews of a chat: all ask for one thing, few times each. */
function fetchers(userAgent: string, each: number, over: Partial<Observation>): Observation[] {
  return swarm({ startMs: LATER_MS, addresses: 2_000, each }).traffic.map((one) => ({
    ...one,
    userAgent,
    ...over,
  }));
}

t.test('who fetches one thing as thousands of others do is told, but not banned', async (test) => {
  const rows = [
    ['firmware', fetchers('AcmeTV/9.4 (WebOS)', 1, { path: '/firmware/check' })],
    ['episode', fetchers('AppleCoreMedia/1.0.0.22B83 (iPhone)', 3, { path: '/e/112.mp3', status: 206 })],
    ['feed', fetchers('NetNewsWire (RSS Reader)', 1, { path: '/feed.xml', status: 304 })],
    ['preview', fetchers('WhatsApp/2.24.22.78 A', 1, { path: '/deal/black-friday' })],
    ['app', fetchers('Dealz/1.0', 3, { path: '/graphql', method: 'POST' })],
  ] as const;
  for (const [name, traffic] of rows) {
    const { detections } = play(detector, traffic, { from });
    test.equal(detections.length, 1, name);
    test.ok(detections[0]!.confidence <= 0.7 && detections[0]!.confidence > 0.5, name);
    test.match(detections[0]!.summary, /It does no harm/, name);
  }
});

t.test('neither a lesson beforehand, nor more URLs, nor more names help', async (test) => {
  const bot = (userAgent: string) => () => ({ agent: { userAgent, headers: 'x' } });
  const lesson = swarm({ addresses: 60, each: 2, lengthMs: 90 * MINUTE, client: bot('evil/1.0') }).traffic;
  const taught = learned(together(usual, lesson));
  const some = swarm({ startMs: LATER_MS, each: 3, client: bot('evil/1.0') }).traffic;
  const urls = some.map((one, at) => ({ ...one, path: `${['/p', '/stock', '/price'][at % 3]}${one.path}` }));
  const nameOf = (key: string): string => `evil/1.${key.charCodeAt(key.length - 1) % 3}`;
  const names = some.map((one) => ({ ...one, userAgent: nameOf(one.key) }));
  const rows = [
    ['a lesson', some, taught],
    ['three URLs', urls, from],
    ['three names', names, from],
  ] as const;
  for (const [name, traffic, before] of rows) {
    const { detections } = play(detector, traffic, { from: before });
    test.ok(detections.length > 0 && detections[0]!.confidence >= config.banAt, name);
    test.ok(detections.reduce((sum, { suspects }) => sum + suspects.length, 0) > 2_000, name);
  }
});

/** A browser's new version: within minutes thousands have it, and go on as before. */
function release(): Observation[] {
  const fresh = (agent: string): string => agent.replace(/Chrome\/14\d/, 'Chrome/142');
  return background({ startMs: LATER_MS, lengthMs: 15 * MINUTE, seed: 9 }, 150).map((seen) => ({
    ...seen,
    userAgent: fresh(seen.userAgent),
  }));
}

/** New firmware of a device that polls one URL and has always done so, without a session. */
function firmware(version: string, startMs: number, lengthMs: number): Observation[] {
  const scene = openScene('firmware', span({ startMs, lengthMs }));
  const { dice } = scene;
  const agent = { userAgent: `Thermostat/${version} (lwip)`, headers: 'lwip' };
  for (let at = 0; at < 1_500; at++) {
    const client = { ip: `90.1.${at >> 8}.${at & 255}`, asn: 64_700, agent, site: 'api' };
    for (let atMs = startMs + dice.next() * 600_000; atMs < startMs + lengthMs; atMs += 600_000)
      scene.ask(client, atMs, 'call', { path: '/poll' });
  }
  return scene.sorted();
}

t.test('a launch, a fresh browser, new firmware and all look-alikes are left alone', async (test) => {
  const lengthMs = 6 * MINUTE;
  const none = (name: string, traffic: readonly Observation[], watch = { banAt: 0, from }): void => {
    test.equal(follow(detector, traffic, { ...watch, everyMs: MINUTE }).banned.size, 0, name);
  };
  for (const [name, make] of Object.entries({ ...LOOK_ALIKES, innocents }))
    none(name, make({ startMs: LATER_MS, lengthMs, seed: 5 }));
  none('a launch three times as big', launch({ startMs: LATER_MS, lengthMs }, 9_000));
  none('a browser release', release());
  const old = firmware('4.1.0', START_MS, 100 * MINUTE);
  const known = { banAt: config.banAt, from: learned(together(usual, old)) };
  none('new firmware', firmware('4.2.0', LATER_MS, lengthMs), known);
});

t.test('what is usual, what is small, and what nobody can judge yet is left alone', async (test) => {
  const found = (over: Parameters<typeof swarm>[0], before: Saved = from): number =>
    play(detector, swarm({ startMs: LATER_MS, ...over }).traffic, { from: before }).detections.length;
  test.equal(found({ addresses: 800 }), 0, 'eight hundred addresses');
  test.equal(found({}, learned(usual.slice(0, 2_000))), 1);
  test.equal(play(detector, swarm().traffic).detections.length, 0, 'without a baseline');
  // The same tool, in the same strength, for hours: then it belongs to this site.
  const always = swarm({ addresses: 6_000, each: 2, lengthMs: 100 * MINUTE }).traffic;
  test.equal(found({}, learned(together(usual, always))), 0, 'it was always there');
  const person = (at: number) => ({ session: `s${at % 400}` });
  test.equal(found({ client: person, each: 5 }), 0, 'sessions that last, from addresses that change');
});

t.test('a version is not another family', async (test) => {
  test.equal(familyOf('ShopApp/7.0.1 (build 7001; iOS 18_7)'), 'ShopApp/# (build #; iOS #)');
});

t.test('split over partitions, or saved and opened at any point, the same suspects', async (test) => {
  const traffic = together(usual, swarm({ startMs: LATER_MS }).traffic).filter(
    ({ timeMs }) => timeMs < LATER_MS + 10 * MINUTE,
  );
  const suspects = ({ detections }: ReturnType<typeof play>) =>
    JSON.stringify(detections.map(({ suspects, pattern, confidence }) => [pattern, confidence, suspects]));
  const one = play(detector, traffic);
  test.equal(one.detections.length, 1);
  for (const partitions of [3, 12])
    test.equal(suspects(play(detector, traffic, { partitions })), suspects(one), `${partitions}`);
  for (const reopenEvery of [9_377, 26_003]) {
    const other = play(detector, traffic, { reopenEvery });
    test.equal(JSON.stringify(other.detections), JSON.stringify(one.detections));
    test.equal(JSON.stringify(other.parts[0]!.save()), JSON.stringify(one.parts[0]!.save()));
    test.equal(other.parts[0]!.size(), one.parts[0]!.size());
  }
  test.throws(() => detector.open(['rareAgent/1', 0, 0, {}, {}, []]));
});

t.test(
  'memory stays bounded under a flood of agents and addresses, and what is lost is counted',
  async (test) => {
    const small = createRareAgent(rareAgentSection.parse({ agentsMax: 50, sourcesMax: 500 }));
    const part = small.open();
    let most = 0;
    for (let at = 0; at < 30_000; at++) {
      const userAgent = at % 3 === 0 ? `agent ${at}` : 'one';
      part.observe(
        observation({ timeMs: START_MS + at * 300, userAgent, key: `10.1.${at >> 8}.${at & 255}` }),
      );
      most = Math.max(most, part.size());
    }
    test.ok(most <= 500 + 512 + 6 * 50, `${most}`);
    test.ok(part.dropped() > 5_000);
    test.equal(reopened(small, part).size(), part.size());
  },
);
