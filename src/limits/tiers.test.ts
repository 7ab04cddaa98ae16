/** Policies as an operator tunes them: headers, sites, answers, delays, shared addresses, config errors. */
import t from 'tap';
import { limitsSection } from './config.js';
import type { Check, CheckResult, CounterStore } from './limiter-contract.js';
import { createSharedAddresses } from './shared-address.js';
import { facts, off, only, setUp, type Sent } from './testing-limiter.js';

const passedOf = (results: readonly boolean[]): number => results.filter(Boolean).length;

/** Counts in plain numbers and keeps what it was asked; answers late where `late`. */
function plainStore(late = false) {
  const counts = new Map<string, number>();
  const ops: string[] = [];
  const step = (check: Check): CheckResult => {
    const { key, op = 'take', cost, limit } = check;
    ops.push(op);
    const allowed = op === 'give' || (counts.get(key) ?? 0) + cost <= limit;
    return { allowed, remaining: 0, resetMs: 1, retryAfterMs: allowed ? 0 : 1 };
  };
  const count = ({ key, op = 'take', cost }: Check): void => {
    const sign = { take: 1, peek: 0, give: -1 }[op];
    counts.set(key, Math.max(0, (counts.get(key) ?? 0) + sign * cost));
  };
  const store: CounterStore = {
    checkAll: (checks) => {
      const results = checks.map(step);
      if (results.every(({ allowed }) => allowed)) checks.forEach(count);
      return late ? Promise.resolve(results) : results;
    },
    close: async () => undefined,
  };
  return { store, ops, counts };
}

t.test('match: header by name, value and absence, and the site', async (t) => {
  const rows: [match: object, sent: Sent, counts: boolean][] = [
    [{ header: { name: 'X-Api-Version' } }, { ids: { 'x-api-version': '1' } }, true],
    [{ header: { name: 'X-Api-Version' } }, {}, false],
    [{ header: { name: 'X-Api-Version', present: false } }, {}, true],
    [{ header: { name: 'X-Api-Version', present: false } }, { ids: { 'x-api-version': '' } }, false],
    [{ header: { name: 'user-agent', value: 'curl/*' } }, { ids: { 'user-agent': 'Curl/8.5' } }, true],
    [{ header: { name: 'user-agent', value: 'curl/*' } }, { ids: { 'user-agent': 'libcurl/8' } }, false],
    [{ header: { name: 'a', value: ['x', '*y*'] } }, { ids: { a: '(y)' } }, true],
    [{ header: { name: 'a', value: 'x.y' } }, { ids: { a: 'xzy' } }, false],
    [{ header: { name: 'a', value: 'a*(b' } }, { ids: { a: 'a---(b' } }, true],
    [{ header: [{ name: 'a' }, { name: 'b' }] }, { ids: { a: '1' } }, false],
    [{ header: [{ name: 'a' }, { name: 'b' }] }, { ids: { a: '1', b: '2' } }, true],
    [{ site: 'shop' }, { site: 'shop' }, true],
    [{ path: '/a' }, { path: '/A.json;x' }, true],
    [{ site: ['shop', 'blog'] }, { site: 'docs' }, false],
  ];
  for (const [match, sent, counts] of rows) {
    const passed = await setUp(only({ match, limit: '1/min' })).passing(2, () => sent);
    t.equal(passed, counts ? 1 : 2, JSON.stringify([match, sent]));
  }
});

t.test('a header of many stars is matched in linear time', async (t) => {
  const header = { name: 'a', value: `${'*a'.repeat(100)}*b` };
  const { send } = setUp(only({ match: { header } }));
  const startMs = performance.now();
  await send({ ids: { a: 'a'.repeat(30_000) } });
  t.ok(performance.now() - startMs < 5000);
});

t.test('a policy that counts answers counts those alone', async (t) => {
  const login = { match: { path: '/login' }, limit: '3/min', countOn: { status: [401, '5xx'] } };
  for (const exact of [false, true]) {
    const { store, ops } = plainStore();
    const { served } = setUp(only({ ...login, exact }), { store });
    const times = async (count: number, sent: Sent): Promise<number> => {
      const all: boolean[] = [];
      for (let at = 0; at < count; at++) all.push(await served({ path: '/login', ...sent }));
      return passedOf(all);
    };
    t.equal(await times(20, { answer: 200 }), 20, 'good answers do not count');
    t.equal(await times(20, {}), 20, 'no answer does not count');
    t.equal(await times(2, { answer: 401 }), 2);
    t.equal(await times(9, { answer: 503 }), 1, 'the third bad one is the last');
    t.equal(await times(9, { answer: 200 }), 0, 'then all are refused');
    t.equal(await times(9, { answer: 401, path: '/other' }), 9);
    const wanted = exact ? ['take', 'give'] : ['peek', 'take'];
    t.same([...new Set(ops)], wanted, `exact ${exact}: asked with ${wanted.join(' and ')}`);
  }
});

t.test('concurrent failures: exact holds the limit, a peek may go over by those under way', async (t) => {
  const rows = [
    [false, 40],
    [true, 5],
  ] as const;
  for (const [exact, passes] of rows) {
    const { store } = plainStore(true);
    const { limiter } = setUp(only({ limit: '5/min', exact, countOn: { status: 401 } }), { store });
    const requests = Array.from({ length: 40 }, () => facts({}));
    const found = await Promise.all(requests.map((request) => limiter.judge(request, undefined)));
    t.equal(found.filter((findings) => findings.length === 0).length, passes, `exact ${exact}`);
    for (const request of requests) limiter.answered(request, { status: 401, setCookies: [] });
    await new Promise((resolve) => setImmediate(resolve));
    t.equal((await limiter.judge(facts({}), undefined)).length, 1, 'and is shut afterwards');
  }
});

t.test('what was refused elsewhere owes nothing, and an answer is told once', async (t) => {
  const { store, counts } = plainStore();
  const policies = [
    ...off,
    { name: 'all', limit: '1/min' },
    { name: 'fails', limit: '9/min', exact: true, countOn: { status: '4xx' } },
  ];
  const { limiter, served } = setUp({ policies }, { store });
  t.ok(await served({ answer: 404 }));
  t.notOk(await served({ answer: 404 }), 'over `all`: never reached the origin');
  const failures = [...counts].find(([key]) => key.includes(':fails'));
  t.equal(failures?.[1], 1, 'nothing was given back that was not taken');
  const request = facts({ ip: '192.0.2.9' });
  await limiter.judge(request, undefined);
  for (let call = 0; call < 3; call++) limiter.answered(request, { status: 404, setCookies: [] });
  limiter.answered(request, { status: 0, setCookies: [] });
  t.equal([...counts].find(([key]) => key.includes('192.0.2.9}:fails'))?.[1], 1);
});

t.test('counting in the background is bounded, and what is dropped is counted', async (t) => {
  let answer: (() => void)[] = [];
  const store: CounterStore = {
    checkAll: (checks) => {
      const results = checks.map(() => ({ allowed: true, remaining: 1, resetMs: 1, retryAfterMs: 0 }));
      if (checks[0]?.op === 'peek') return results;
      return new Promise((resolve) => answer.push(() => resolve(results)));
    },
    close: async () => undefined,
  };
  const limits = only({ limit: '9/min', countOn: { status: 401 } }, { backgroundMax: 3 });
  const { limiter, served } = setUp(limits, { store });
  for (let at = 0; at < 10; at++) await served({ answer: 401 });
  t.match(limiter.stats().background, { inFlight: 3, dropped: 7, failed: 0 });
  for (const done of answer.splice(0)) done();
  answer = [];
  await new Promise((resolve) => setImmediate(resolve));
  t.match(limiter.stats().background, { inFlight: 0, dropped: 7 });
});

t.test('while the store is away failures count in the stand-in', async (t) => {
  const store: CounterStore = {
    checkAll: () => Promise.reject(new Error('down')),
    close: async () => undefined,
  };
  const limits = only({ limit: '3/min', exact: true, countOn: { status: 401 } });
  const { served, limiter } = setUp(limits, { store });
  const all: boolean[] = [];
  for (let at = 0; at < 10; at++) all.push(await served({ answer: 401 }));
  t.equal(passedOf(all), 3);
  t.match(limiter.stats().background, { failed: 0, dropped: 0 }, 'and the store is not asked for them');
});

t.test('a shaping bucket says how long to wait; observed it says so and holds nobody', async (t) => {
  const delays: CounterStore = {
    checkAll: (checks) =>
      checks.map(({ delayMaxMs }) => ({
        allowed: true,
        remaining: 1,
        resetMs: 900,
        retryAfterMs: 0,
        ...(delayMaxMs === undefined ? {} : { delayMs: delayMaxMs / 2 }),
      })),
    close: async () => undefined,
  };
  const policy = { limit: '60/min', algorithm: 'leaky-bucket', delayMax: '1s' };
  const [shaped] = await setUp(only(policy), { store: delays }).send({});
  t.match(shaped, { id: 'DELAY-P', kind: 'note', points: 0, delayMs: 500, limit: { policy: 'p' } });
  const [seen] = await setUp(only({ ...policy, observe: true }), { store: delays }).send({});
  t.match(seen, { id: 'DELAY-P', observed: true });
  t.equal(seen?.delayMs, undefined);
});

t.test('the burst alarm goes off beside every algorithm and stops no counting', async (t) => {
  for (const algorithm of [
    'fixed-window',
    'sliding-log',
    'sliding-counter',
    'leaky-bucket',
    'token-bucket',
  ]) {
    const { send, passing } = setUp(only({ limit: '20/min', algorithm, burstAlarm: '5/5s' }));
    for (let call = 0; call < 5; call++) t.same(await send({}), []);
    t.match(await send({}), [{ id: 'BURST-ALARM', observed: true }], algorithm);
    t.equal(await passing(40, () => ({})), 14, `${algorithm}: the limit is where it was`);
  }
});

t.test('identities: each, in conjunction, and missing', async (t) => {
  const rows: [by: unknown, make: (at: number) => Sent, passes: number, what: string][] = [
    ['apiKey', (at) => ({ ids: { apikey: `k${at % 2}` } }), 4, 'two keys'],
    ['session', (at) => ({ ids: { session: `s${at % 2}` } }), 4, 'two sessions'],
    ['ip', (at) => ({ ip: `192.0.2.${at % 2}` }), 4, 'two addresses'],
    ['apiKey', (at) => ({ ip: `192.0.2.${at}` }), 2, 'no key: one bucket for all'],
    [
      { all: ['session', 'path'] },
      (at) => ({ path: `/${at % 2}`, ids: { session: 's' } }),
      4,
      'session and path',
    ],
    [{ all: ['session', 'path'] }, (at) => ({ path: '/a', ip: `192.0.2.${at}` }), 2, 'no session, one path'],
    [{ all: ['ip', 'host'] }, (at) => ({ host: `${at % 3}.test` }), 6, 'address and host'],
    [{ all: ['apiKey', 'ip'] }, (at) => ({ ip: `192.0.2.${at % 2}`, ids: { apikey: 'k' } }), 4, 'key and ip'],
    [['apiKey', 'session'], (at) => ({ ids: { apikey: 'k', session: `s${at}` } }), 2, 'the first one counts'],
    [['apiKey', 'session'], (at) => ({ ids: { session: `s${at % 2}` } }), 4, 'else the second'],
  ];
  for (const [by, make, passes, what] of rows)
    t.equal(await setUp(only({ by, limit: '2/min' })).passing(12, make), passes, what);
});

t.test('cost is what one request takes', async (t) => {
  t.equal(await setUp(only({ limit: '10/min', cost: 3 })).passing(9, () => ({})), 3);
});

t.test('an address is shared once the origin has accepted many sessions behind it', async (t) => {
  let nowMs = 0;
  const settings = limitsSection.parse({ sharedAddress: { sessions: 3, factorMax: 5 } }).sharedAddress;
  const make = () => createSharedAddresses(settings, { nowMs: () => nowMs });
  const made = make();
  for (let round = 0; round < 50; round++)
    for (let at = 0; at < 20; at++) made.answered('a', `s${round}-${at}`);
  t.equal(made.factor('a'), 1, 'made-up sessions that never come back do not count');
  t.ok(made.stats().sessions <= 20, 'and are forgotten', made.stats());
  const twice = make();
  for (let at = 0; at < 9; at++) twice.answered('a', `s${at}`);
  nowMs += 30_000;
  for (let at = 0; at < 9; at++) twice.answered('a', `s${at}`);
  t.equal(twice.factor('a'), 1, 'twice within a minute is not enough');
  nowMs += 30_000;
  for (let at = 0; at < 2; at++) twice.answered('a', `s${at}`);
  t.equal(twice.factor('a'), 1, 'two are a family');
  twice.answered('a', 's2');
  t.equal(twice.factor('a'), 3);
  for (let at = 3; at < 9; at++) twice.answered('a', `s${at}`);
  t.equal(twice.factor('a'), 5, 'never above factorMax');
  t.equal(twice.factor('b'), 1);
  nowMs += 31 * 60_000;
  t.equal(twice.factor('a'), 1, 'those who left do not count');
  const set = make();
  for (let at = 0; at < 4; at++) set.issued('a', `s${at}`);
  t.equal(set.factor('a'), 1, 'a session that was only handed out does not count');
  for (let at = 0; at < 4; at++) set.answered('a', `s${at}`);
  t.equal(set.factor('a'), 1, 'nor one that comes back at once: a client may fetch any number of them');
  for (let at = 0; at < 1000; at++) set.answered('a', `flood${at}`);
  nowMs += 60_000;
  for (let at = 0; at < 4; at++) set.answered('a', `s${at}`);
  t.equal(set.factor('a'), 4, 'one that stays counts, and no flood of made-up ones drives it out');
  for (let at = 0; at < 1000; at++) set.answered('a', `flood${at}`);
  t.equal(set.factor('a'), 4, 'nor later');
});

t.test('one client that collects sessions widens its limit by `growth` and no faster', async (t) => {
  for (const mints of [true, false]) {
    const { served, limiter, move } = setUp({});
    const minutes: number[] = [];
    const jar: string[] = [];
    for (let minute = 0; minute < 6; minute++) {
      let passed = 0;
      for (let shot = 0; shot < 3000; shot++) {
        const session = `c${mints ? jar.length : shot % 400}`;
        if (mints && (await served({ answer: 200, setCookies: [`sid=${session}`] }))) jar.push(session);
        const ids = { session: jar.length === 0 ? session : (jar[shot % jar.length] ?? session) };
        if (await served({ answer: 200, ids })) passed++;
        move(20);
      }
      minutes.push(passed);
    }
    t.ok((minutes[0] ?? 0) <= 6 * 60, 'in the first minute it is one client', { minutes });
    const wide = minutes.every((passed, minute) => passed <= Math.max(1, 8 * minute) * 7 * 60);
    t.ok(wide, 'then eight more in each minute', { minutes, shared: limiter.stats().shared });
  }
});

t.test('shared addresses: bounded, whoever comes', async (t) => {
  let nowMs = 0;
  const made = createSharedAddresses(limitsSection.parse({}).sharedAddress, { nowMs: () => nowMs });
  for (let at = 0; at < 120_000; at++) {
    nowMs += 1;
    made.answered(`a${at % 30_000}`, `s${at}`);
  }
  const { addresses, sessions, dropped } = made.stats();
  t.ok(addresses <= 10_000 && sessions <= 50_001 && dropped > 0, 'within bounds', made.stats());
});

t.test('a shared address gets a wider limit, a made-up crowd and a login do not', async (t) => {
  const policies = [
    ...off.filter(({ name }) => name === 'api'),
    { name: 'ingress', limit: '10/min', burstAlarm: '5/5s' },
    { name: 'login', match: { path: '/login' }, limit: '5/min', algorithm: 'sliding-log', exact: true },
  ];
  const { served, passing, move, send } = setUp({ policies, sharedAddress: { sessions: 4, factorMax: 6 } });
  for (let at = 0; at < 5; at++) {
    t.ok(await served({ answer: 200, setCookies: [`sid=s${at}; HttpOnly`, 'other=1'] }));
    move(60_000);
    t.ok(await served({ answer: 302, ids: { session: `s${at}` } }));
    move(60_000);
    t.ok(await served({ answer: 302, ids: { session: `s${at}` } }));
  }
  move(120_000);
  t.equal(await passing(80, () => ({})), 50, 'five sessions: five times the limit');
  move(120_000);
  t.equal(await passing(80, () => ({ path: '/login' })), 5, 'the login limit stays');
  move(120_000);
  for (let call = 0; call < 25; call++) t.same(await send({}), [], 'the alarm is wider too');
  t.match(await send({}), [{ id: 'BURST-ALARM' }]);
  const crowd = setUp({ policies });
  const all: boolean[] = [];
  for (let at = 0; at < 80; at++) all.push(await crowd.served({ answer: 200, ids: { session: `m${at}` } }));
  t.equal(passedOf(all), 10, 'made-up cookies widen nothing');
});

t.test('config: keys that do not go together are refused with what would fit', async (t) => {
  const rows: [policy: object, path: string, says: RegExp][] = [
    [{ limit: '5000/min', algorithm: 'sliding-log' }, 'limit', /sliding-counter/],
    [{ limit: '5/min', cost: 6 }, 'cost', /ever pass/],
    [{ algorithm: 'token-bucket', burst: 2, cost: 3 }, 'cost', /ever pass/],
    [{ burst: 5 }, 'burst', /no bucket/],
    [{ delayMax: '1s' }, 'delayMax', /leaky-bucket alone/],
    [{ algorithm: 'leaky-bucket', delayMax: '1h' }, 'delayMax', /from 0 to 10000/],
    [{ algorithm: 'leaky-bucket', delayMax: '1s', countOn: { status: 401 } }, 'countOn', /not both/],
    [{ countOn: { status: '6xx' } }, 'countOn', /5xx/],
    [{ countOn: { status: 99 } }, 'countOn', /100/],
    [{ countOn: { status: 401 }, burstAlarm: '5/5s' }, 'burstAlarm', /policy of its own/],
    [{ cost: 9, burstAlarm: '5/5s' }, 'burstAlarm', /at least the cost/],
    [{ by: 'session', widen: true }, 'widen', /by ip/],
    [{ limit: '5/min', algorithm: 'sliding-log', widen: true }, 'widen', /sliding-counter/],
    [{ match: { host: ['a.test', 'https://b.test'] } }, 'match', /https:..b.test/],
    [{ match: { host: 'api.*' } }, 'match', /nothing matches/],
    [{ match: { host: 'a.test.' } }, 'match', /final dot/],
    [{ match: { path: '/search?q=*' } }, 'match', /without query/],
    [{ by: ['ip', 'session'] }, 'by', /ip is always there/],
    [{ by: ['session', 'path', 'ip'] }, 'by', /path is always there/],
    [{ by: ['ip', 'ip'] }, 'by', /each identity fits once/],
    [{ by: { all: ['ip', 'ip'] } }, 'by', /each identity fits once/],
    [{ match: { header: { name: 'a b' } } }, 'match', /header name/],
    [{ match: { header: { name: 'a', present: false, value: 'x' } } }, 'match', /must be missing/],
  ];
  for (const [policy, path, says] of rows) {
    const issues = limitsSection.safeParse({ policies: [{ name: 'p', ...policy }] }).error?.issues ?? [];
    const text = JSON.stringify(issues);
    t.match(text, says, JSON.stringify(policy));
    t.ok(issues.some((issue) => issue.path.includes(path)), `${path} is named`, { text });
  }
  const fits = [
    { observe: true, countOn: { status: ['4xx', 500] } },
    { algorithm: 'leaky-bucket', delayMax: '2s', burst: 5 },
    { by: ['session', 'ip'], widen: true },
    { by: { all: ['ip', 'session'] }, match: { host: ['*', '*.a.test', '[::1]', 'localhost'] } },
  ];
  for (const policy of fits)
    t.ok(limitsSection.safeParse({ policies: [{ name: 'p', ...policy }] }).success, JSON.stringify(policy));
});
