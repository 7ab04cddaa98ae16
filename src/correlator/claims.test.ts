import t from 'tap';
import { claimsWithin, createClaims, isWelcome } from './claims.js';
import type { Verdict } from './crawlers.js';
import { observation, START_MS } from './testing/index.js';

const claimOf = (agent: string): string | undefined => (agent.includes('Bot') ? 'bot' : undefined);

const network = (value: string) => ({ kind: 'network', value }) as const;

t.test('only who claims to be a crawler is remembered, and found by its network', async (test) => {
  const claims = createClaims(claimOf);
  for (const ip of ['192.0.2.1', '2001:db8::1'])
    claims.observe(observation({ ip, userAgent: 'ExampleBot/1' }));
  claims.observe(observation({ ip: '192.0.2.2', userAgent: 'Mozilla/5.0' }));
  const found = (value: string) => claimsWithin(network(value), [claims]).map(({ ip }) => ip);
  test.same(found('192.0.2.1'), ['192.0.2.1']);
  test.same(found('192.0.2.0/24'), ['192.0.2.1']);
  test.same(found('192.0.2.2'), []);
  test.same(found('2001:db8::/64'), ['2001:db8::1']);
  test.same(claimsWithin({ kind: 'session', value: '192.0.2.1' }, [claims]), []);
});

t.test('what is remembered is bounded, fades, and survives a save', async (test) => {
  const claims = createClaims(claimOf);
  for (let at = 0; at < 5_000; at++) {
    const ip = `10.0.${at >> 8}.${at & 255}`;
    claims.observe(observation({ ip, key: ip, userAgent: 'ExampleBot/1', timeMs: START_MS + at }));
  }
  test.ok([...claims.all()].length <= 2_000);
  test.ok(claimsWithin(network('10.0.0.0/8'), [claims]).length <= 8);
  const copy = createClaims(claimOf, JSON.parse(JSON.stringify(claims.save())));
  test.same(copy.save(), claims.save());
  claims.observe(observation({ ip: '10.1.1.1', userAgent: 'ExampleBot/1', timeMs: START_MS + 8e6 }));
  test.equal([...claims.all()].length, 1);
});

t.test('one that proves it, or cannot be asked, is welcome; impostors are not', async (test) => {
  const welcome = (...verdicts: Verdict[]) =>
    isWelcome(
      { verified: async (ip) => verdicts[Number(ip)] ?? 'no' },
      verdicts.map((_, at) => ({ ip: `${at}`, userAgent: 'ExampleBot/1' })),
    );
  test.equal(await welcome(), false);
  test.equal(await welcome('no', 'no'), false);
  test.equal(await welcome('no', 'yes'), true);
  test.equal(await welcome('unknown'), true);
});
