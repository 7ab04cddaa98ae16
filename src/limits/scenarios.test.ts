/** Traffic that tells the algorithms and tiers apart, against the shipped functions and a fake clock. */
import t from 'tap';
import { identitySection } from '../identity/config.js';
import { createIdentities } from '../identity/index.js';
import { algorithms } from './algorithms/index.js';
import { facts, off, setUp, type Sent } from './testing-limiter.js';

const ALGORITHMS = algorithms.map(({ name }) => name);
type Script = readonly (readonly [waitMs: number, count: number])[];

/** Sends `count` requests at once after each wait; answers how many passed in each step. */
async function play(policy: object, script: Script, make: (at: number) => Sent = () => ({})) {
  const { passing, move } = setUp({ policies: [...off, { name: 'p', ...policy }] });
  const passed: number[] = [];
  for (const [waitMs, count] of script) {
    move(waitMs);
    passed.push(await passing(count, make));
  }
  return passed;
}
const sum = (numbers: readonly number[]): number => numbers.reduce((total, one) => total + one, 0);

t.test('boundary attack: two full windows in 2.2 s', async (t) => {
  // A window begins with the first hit: one opens it, the rest come at its very end and right after it.
  const attack: Script = [
    [0, 1],
    [58_900, 99],
    [2_200, 100],
  ];
  const burstOf = async (algorithm: string): Promise<number> => {
    const [, end = 0, start = 0] = await play({ limit: '100/min', algorithm }, attack);
    return end + start;
  };
  t.equal(await burstOf('fixed-window'), 199, 'the fixed window lets nearly twice its limit through');
  const counter = await burstOf('sliding-counter');
  t.ok(counter <= 104, 'the sliding counter what two seconds of the new window give', { counter });
  t.equal(await burstOf('sliding-log'), 100, 'the log not one more');
});

t.test('credential stuffing from 58 addresses is stopped by a tier at the endpoint', async (t) => {
  // Each address stays below its own five a minute, for ten minutes; some hundred accounts are tried.
  const login = { method: 'POST', path: '/login' };
  const rounds = 10;
  const stuffing = async (policies: object[]): Promise<number> => {
    const { served, move } = setUp({ policies: [...off, ...policies] });
    let passed = 0;
    for (let round = 0; round < rounds; round++) {
      for (let at = 0; at < 58 * 4; at++) {
        const name = `user${(round * 37 + at) % 120}`;
        const sent = { ...login, ip: `198.51.100.${at % 58}`, answer: 401 };
        if (await served(sent, { username: name })) passed++;
      }
      move(60_000);
    }
    return passed;
  };
  const all = 58 * 4 * rounds;
  const match = { method: 'POST', path: '/login' };
  const byAddress = { name: 'address', match, limit: '5/min', algorithm: 'sliding-log' };
  t.equal(await stuffing([byAddress]), all, 'by address alone nothing is stopped');
  const failures = { name: 'site', match, by: { all: ['site', 'path'] }, limit: '20/min' };
  const fewer = await stuffing([byAddress, { ...failures, countOn: { status: 401 } }]);
  t.ok(fewer <= 20 * (rounds + 1), 'by path: failed logins of the site are held to 20 a minute', { fewer });
  const byUser = { name: 'user', match, by: 'user', limit: '5/h', algorithm: 'sliding-log', exact: true };
  const accounts = await stuffing([byAddress, byUser]);
  t.equal(accounts, 120 * 5, 'by user: five tries an account and hour, from wherever they come');
});

t.test('a lid on an endpoint holds, however its path and the host of a wildcard are spelled', async (t) => {
  const real = createIdentities(identitySection.parse({}), 'key');
  const policy = { match: { path: '/login' }, by: { all: ['site', 'path'] }, limit: '20/min' };
  const { passing } = setUp({ policies: [...off, { name: 'lid', ...policy }] }, { identities: real });
  const spelled = ['/login;v=', '/login.json;v=', '/LOGIN;v=', '/login/;v=', '/x/..;/login;v='];
  const make = (at: number): Sent => ({
    path: `${spelled[at % spelled.length]}${at}`,
    host: `h${at}.shop.test`,
    ip: `192.0.2.${at}`,
  });
  t.equal(await passing(200, make), 20);
});

t.test('good logins are not held up while failures are counted by path', async (t) => {
  const policy = { name: 'site', by: { all: ['site', 'path'] }, limit: '20/min', countOn: { status: 401 } };
  const { served } = setUp({ policies: [...off, policy] });
  for (let at = 0; at < 500; at++) t.ok(await served({ path: '/login', ip: `192.0.2.${at}`, answer: 200 }));
});

t.test('a phone that reconnects: four requests in a second after 30 s of silence', async (t) => {
  // 30 a minute is far above what the phone sends; only a bucket that smooths sees anything wrong with it.
  const script: Script = Array.from({ length: 20 }, () => [
    [29_250, 1],
    [250, 1],
    [250, 1],
    [250, 1],
  ]).flat() as unknown as Script;
  for (const algorithm of ALGORITHMS) {
    const burst = algorithm === 'leaky-bucket' ? { burst: 1 } : {};
    const passed = sum(await play({ limit: '30/min', algorithm, ...burst }, script));
    if (algorithm === 'leaky-bucket') t.equal(passed, 20, 'the leaky bucket refuses three of four');
    else t.equal(passed, 80, `${algorithm} lets all of them through`);
  }
});

t.test('shaped, the same phone waits instead of being refused', async (t) => {
  const policy = { name: 'p', limit: '60/min', algorithm: 'leaky-bucket', burst: 10, delayMax: '4s' };
  const { limiter, move } = setUp({ policies: [...off, policy] });
  const waits: number[] = [];
  for (const waitMs of [30_000, 250, 250, 250]) {
    move(waitMs);
    const [finding] = await limiter.judge(facts({}), undefined);
    t.not(finding?.kind, 'limit');
    waits.push(finding?.delayMs ?? 0);
  }
  t.same(waits, [0, 750, 1500, 2250], 'one a second goes on');
});

t.test('failures that are given back leave no trace, in every algorithm', async (t) => {
  for (const algorithm of ALGORITHMS) {
    const policy = { name: 'p', limit: '5/min', algorithm, exact: true, countOn: { status: '4xx' } };
    const { served, move } = setUp({ policies: [...off, policy] });
    let good = 0;
    for (let at = 0; at < 40; at++) if (await served({ answer: 200 })) good++;
    t.equal(good, 40, `${algorithm}: good answers`);
    let bad = 0;
    for (let at = 0; at < 40; at++) if (await served({ answer: 404 })) bad++;
    t.equal(bad, 5, `${algorithm}: bad ones`);
    move(180_000);
    t.ok(await served({ answer: 404 }), `${algorithm}: free again`);
  }
});

t.test('400 people behind one address, by the shipped ingress: who is served when', async (t) => {
  const { served, move } = setUp({});
  const minutes: number[] = [];
  for (let minute = 0; minute < 12; minute++) {
    let passed = 0;
    for (let second = 0; second < 60; second++) {
      for (let slice = 0; slice < 20; slice++) {
        // Everybody once a second, in an order that changes.
        for (let at = 0; at < 20; at++) {
          const who = (slice * 20 + at + second * 7 + minute) % 400;
          if (await served({ path: '/page', ids: { session: `s${who}` }, answer: 200 })) passed++;
        }
        move(50);
      }
    }
    minutes.push(Math.round((passed / (400 * 60)) * 100));
  }
  t.comment(`percent served in each minute: ${minutes.join(', ')}`);
  t.ok((minutes[0] ?? 0) <= 5, 'in the first minute the address is one client');
  t.ok(
    minutes.slice(1, 9).every((percent, at) => percent >= (at + 1) * 12 - 2),
    'eight more people in each minute after it: the limit of each is 1.5 % of what all of them send',
    { minutes },
  );
  t.ok(minutes.slice(9).every((percent) => percent >= 99), 'from the tenth on all of them', { minutes });
});
