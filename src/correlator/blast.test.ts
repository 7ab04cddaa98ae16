import t from 'tap';
import { weighBlast } from './blast.js';
import type { Detection, Suspect } from './detector.js';
import { UNTOUCHED } from './earlier.js';
import { createGoodSample, joinSamples } from './good-sample.js';
import { createMatcher } from './subject-matcher.js';
import { BASE_MS, observed } from './testing-engine.js';

const suspect = (value: string, count = 9): Suspect => ({
  subject: { kind: 'network', value },
  evidence: { count, firstSeenMs: BASE_MS, lastSeenMs: BASE_MS, requestIds: [] },
});
const attackers = Array.from({ length: 50 }, (_, n) => suspect(`198.51.100.${n}`));
const detectionOf = (suspects: Suspect[]): Detection => ({
  detector: 'failedLogins',
  pattern: 'p',
  confidence: 1,
  summary: 's',
  counts: {},
  firstSeenMs: BASE_MS,
  lastSeenMs: BASE_MS + 540_000,
  suspects,
  explains: ({ path }) => path === '/login',
});

type Client = Readonly<{ ip: string; requests: number; path?: string; session?: string; tool?: string }>;

function weigh(suspects: Suspect[], clients: Client[], earlier = UNTOUCHED) {
  const sample = createGoodSample();
  let n = 0;
  for (const { ip, requests, path = '/', session, tool = 'browser' } of clients) {
    for (let at = 0; at < requests; at++)
      sample.observe(
        observed({ ip, path, session, userAgent: tool, headerHash: tool, n: n++, at: (at % 10) * 60_000 }),
      );
  }
  const good = joinSamples([sample], BASE_MS + 600_000);
  return weighBlast({ detection: detectionOf(suspects), suspects, good, earlier, shareMax: 0.02 });
}
const people = Array.from({ length: 100 }, (_, n): Client => ({ ip: `203.0.113.${n}`, requests: 100 }));

t.test('attackers without good requests of their own pass', async (test) => {
  test.match(weigh(attackers, people), { passed: { length: 50 }, spared: [], touched: 0 });
});

t.test('good requests that are part of the pattern do not speak for their sender', async (test) => {
  const cover = attackers.map(({ subject }) => ({ ip: subject.value, requests: 100, path: '/login' }));
  test.match(weigh(attackers, [...people, ...cover]), { passed: { length: 50 }, share: 0 });
  const honest = cover.map(({ ip, requests }) => ({ ip, requests }));
  const blast = weigh(attackers, [...people, ...honest]);
  test.same(blast.passed, [], 'the same requests elsewhere do');
  test.ok(blast.share > 0.25 && blast.share < 0.42, `about a third: ${blast.share}`);
});

t.test('a few pages that attackers look at beside the attack do not shield them', async (test) => {
  const cover = attackers.map(({ subject }) => ({ ip: subject.value, requests: 8 }));
  test.match(weigh(attackers, cover), { passed: { length: 50 }, share: 0 }, 'though nobody else is there');
  const more = cover.map(({ ip }) => ({ ip, requests: 10 }));
  test.match(weigh(attackers, more), { passed: [], share: 1 }, 'more good requests than bad ones do');
});

t.test('one office among attackers is spared, the others are banned', async (test) => {
  const office = suspect('192.0.2.1');
  const blast = weigh([...attackers, office], [...people, { ip: '192.0.2.1', requests: 2_000 }]);
  test.same(blast.spared, [office]);
  test.equal(blast.passed.length, 50);
});

t.test('what was banned before adds up', async (test) => {
  const office = suspect('192.0.2.1');
  const clients = [...people, { ip: '192.0.2.1', requests: 120 }, { ip: '192.0.2.2', requests: 300 }];
  test.match(weigh([office], clients), { passed: { length: 1 } });
  const earlier = { weight: 300, samples: 28 };
  const blast = weigh([...attackers, office], clients, earlier);
  test.same(blast.spared, [office]);
  test.equal(blast.passed.length, 50, 'who touches nothing is banned all the same');
  test.ok(blast.share < 0.02 && blast.earlierShare > 0.02, 'both shares are told apart');
});

t.test('what the own tool of a crowd fetches beside the attack does not shield it', async (test) => {
  const shield = attackers.map(({ subject }) => ({ ip: subject.value, requests: 30, tool: 'tool' }));
  test.match(weigh(attackers, [...people, ...shield]), { passed: { length: 50 }, touched: 0 });
  const asPeople = shield.map((one) => ({ ...one, tool: 'browser' }));
  test.match(weigh(attackers, [...people, ...asPeople]), { passed: [] }, 'what others use too may be theirs');
  const office = suspect('192.0.2.1');
  const clients = [...people, ...shield, { ip: '192.0.2.1', requests: 2_000 }];
  test.same(weigh([...attackers, office], clients).spared, [office], 'other software still speaks');
});

t.test('people with sessions in a banned prefix count, however large the attack', async (test) => {
  const prefix = suspect('2001:db8:bad::/48', 5_000);
  const homes = Array.from({ length: 20 }, (_, n): Client => ({
    ...{ ip: `2001:db8:bad:${n + 1}::7`, requests: 40, session: `home ${n}` },
  }));
  const attack = { ip: '2001:db8:bad:fff::1', requests: 3_000, tool: 'tool' };
  test.match(weigh([prefix], [...people, attack, ...homes]), { passed: [] });
  test.match(weigh([prefix], [...people, attack]), { passed: { length: 1 } });
  const thrown = { ...attack, session: 'made up' };
  test.match(weigh([prefix], [...people, thrown]), { passed: { length: 1 } }, 'the attack is no neighbour');
});

t.test('with few requests to go by, a few touched ones are let go', async (test) => {
  test.match(
    weigh(
      [suspect('192.0.2.1', 1)],
      [
        { ip: '192.0.2.1', requests: 3 },
        { ip: '203.0.113.1', requests: 9 },
      ],
    ),
    {
      passed: { length: 1 },
    },
  );
  test.match(weigh([suspect('192.0.2.1')], []), { passed: { length: 1 }, share: 0 });
});

t.test('a request belongs to subjects of every kind', async (test) => {
  const request = { ...observed({ ip: '2001:db8:1::5' }), key: '2001:db8:1::/64', session: 's', apiKey: 'k' };
  const all = { ...request, ja4: 'j', headerHash: 'h' };
  for (const [kind, value] of [
    ['network', '2001:db8:1::5'],
    ['network', '2001:db8:1::/64'],
    ['network', '2001:db8::/32'],
    ['session', 's'],
    ['apiKey', 'k'],
    ['ja4', 'j'],
    ['headers', 'h'],
  ] as const)
    test.equal(
      createMatcher([
        { kind: 'session', value: 'none' },
        { kind, value },
      ]).find(all),
      1,
      `${kind} ${value}`,
    );
  test.equal(createMatcher([{ kind: 'network', value: '2001:db9::/32' }]).find(all), -1);
});
