import t from 'tap';
import { limitsSection } from './config.js';
import { encodeIdentity } from './key.js';
import type { CounterStore } from './limiter-contract.js';
import { memoryStore } from './stores/memory.js';
import { off, only, setUp, type Sent } from './testing-limiter.js';

t.test('shipped policies', async (t) => {
  const rows: [
    title: string,
    make: (at: number) => Sent,
    sent: number,
    passes: number,
    body?: (at: number) => Record<string, string>,
  ][] = [
    ['ingress: 60 in 10 s an address', () => ({}), 100, 60],
    ['login: 5 a minute', () => ({ method: 'POST', path: '/api/login' }), 20, 5],
    [
      'login: case, slash and path parameters lead nowhere',
      (at) => ({ method: 'POST', path: ['/API/Login', '/api/login/', '/api/login;x=1'][at % 3] ?? '' }),
      20,
      5,
    ],
    ['login: reading the page does not count', () => ({ path: '/login' }), 20, 20],
    [
      'login: other addresses are not touched',
      (at) => ({ method: 'POST', path: '/login', ip: `192.0.2.${at}` }),
      20,
      20,
    ],
    [
      'reset: 3 an hour and user from many addresses',
      (at) => ({ method: 'POST', path: '/password-reset', ip: `192.0.2.${at}` }),
      10,
      3,
      () => ({ username: 'a' }),
    ],
    [
      'reset: other users are not touched',
      () => ({ method: 'POST', path: '/password-reset' }),
      20,
      20,
      (at) => ({ username: `u${at}` }),
    ],
    [
      'reset: who names nobody is counted by address',
      () => ({ method: 'POST', path: '/password-reset' }),
      10,
      3,
      () => ({}),
    ],
    [
      'reset: without a body it is counted at once',
      () => ({ method: 'POST', path: '/password-reset' }),
      10,
      3,
    ],
  ];
  for (const [title, make, sent, passes, body] of rows) {
    t.test(title, async (t) => t.equal(await setUp({}).passing(sent, make, body), passes));
  }
  const relaxed = { policies: [{ name: 'ingress', enabled: false }] };
  t.equal(
    await setUp(relaxed).passing(700, () => ({ path: '/api/x', ids: { apikey: 'k' } })),
    600,
    'api: 600 a minute',
  );
  t.equal(
    await setUp({ policies: [{ name: 'login', match: { path: '/login' }, limit: '2/min' }] }).passing(
      9,
      () => ({ path: '/login' }),
    ),
    2,
    'replaced by name',
  );
  t.equal(await setUp({ enabled: false }).passing(99, () => ({})), 99, 'switched off');
});

t.test('the finding carries points once, the numbers and a sentence', async (t) => {
  const { send } = setUp({
    policies: [{ name: 'strict', match: { path: '/login' }, limit: '5/min', message: 'Slow down.' }],
  });
  for (let call = 0; call < 5; call++) t.same(await send({ method: 'POST', path: '/login' }), []);
  const found = await send({ method: 'POST', path: '/login' });
  t.same(found.map(({ id }) => id).sort(), ['LIMIT-LOGIN', 'LIMIT-STRICT']);
  t.equal(
    found.reduce((sum, { points }) => sum + points, 0),
    25,
  );
  t.equal(
    found[0]?.limit?.retryAfterMs,
    Math.max(...found.map(({ limit }) => limit?.retryAfterMs ?? 0)),
    'the longest wait first',
  );
  t.match(
    found.find(({ id }) => id === 'LIMIT-LOGIN'),
    { kind: 'limit', limit: { policy: 'login', by: 'ip', limit: 5, windowMs: 60_000, remaining: 0 } },
  );
  t.equal(found.find(({ id }) => id === 'LIMIT-STRICT')?.message, 'Slow down.');
});

t.test('the burst alarm is written down, refuses nothing and does not stop the counting', async (t) => {
  const { send, passing } = setUp({});
  for (let call = 0; call < 30; call++) t.same(await send({}), []);
  t.match(await send({}), [{ id: 'BURST-ALARM', kind: 'note', points: 0, observed: true }]);
  t.equal(await passing(50, () => ({})), 29);
});

t.test('an observed policy says so and neither refuses nor charges', async (t) => {
  const { send, passing } = setUp({
    policies: [...off, { name: 'p', limit: '1/min', observe: true }, { name: 'q', limit: '3/min' }],
  });
  await send({});
  t.match(await send({}), [{ id: 'LIMIT-P', kind: 'limit', points: 0, observed: true }]);
  t.equal(await passing(5, () => ({})), 1, 'the enforced policy counted all along');
});

t.test('IPv6: a host cannot walk through its prefixes, neighbours are left alone (E01)', async (t) => {
  const limits = only({ limit: '10/min' });
  const v6 = (site: number, net: number): Sent => ({
    ip: 'x',
    key: `2001:db8:${site}:${net}::/64`,
    wide: `2001:db8:${site}::/56`,
  });
  t.equal(await setUp(limits).passing(500, () => v6(1, 2)), 10);
  t.equal(await setUp(limits).passing(500, (at) => v6(1, at % 256)), 80);
  t.equal(await setUp(limits).passing(20, (at) => v6(at, 0)), 20);
});

t.test('made-up sessions do not lead around the limit of their address', async (t) => {
  const limits = only({ by: ['session', 'ip'], limit: '10/min' }, { addressFactor: 5 });
  t.equal(await setUp(limits).passing(500, (at) => ({ ids: { session: `s${at}` } })), 50);
  t.equal(
    await setUp(limits).passing(30, (at) => ({ ids: { session: `s${at % 3}` } })),
    30,
    'people behind one address',
  );
});

t.test('a missing identity is its own bucket', async (t) => {
  t.equal(
    await setUp(only({ by: 'session', limit: '4/min' })).passing(10, (at) => ({ ip: `192.0.2.${at}` })),
    4,
  );
});

t.test('joined identities count together', async (t) => {
  const limits = only({ by: { all: ['ip', 'path'] }, limit: '2/min' });
  t.equal(await setUp(limits).passing(10, (at) => ({ path: `/${at % 2}` })), 4);
});

t.test('keys: different identities never share one, whatever they hold (F06)', async (t) => {
  const values = [
    '1.2.3.4',
    '1.2.3.45',
    '/x',
    '5/x',
    'a:b',
    'a|b',
    '{a}',
    'a}{b',
    'a\nb',
    '-',
    '',
    '#x',
    'x'.repeat(64),
    'x'.repeat(65),
    'x'.repeat(8192),
    undefined,
  ];
  const keys = values.map(encodeIdentity);
  t.equal(new Set(keys).size, values.length);
  for (const key of keys) t.match(key, /^[A-Za-z0-9._:/#-]{1,64}$/);
  const { passing } = setUp(only({ by: { all: ['ip', 'path'] }, limit: '1/min' }));
  const pairs = [
    { ip: '1.2.3.4', path: '5/x' },
    { ip: '1.2.3.45', path: '/x' },
    { ip: '1.2.3.4', path: '|/x' },
    { ip: '1.2.3.4|', path: '/x' },
  ];
  t.equal(await passing(4, (at) => pairs[at] ?? {}), 4);
});

t.test('matching', async (t) => {
  const rows: [match: object, sent: Sent, counts: boolean][] = [
    [{ path: '/api/**' }, { path: '/api' }, true],
    [{ path: '/api/**' }, { path: '/api/a/b' }, true],
    [{ path: '/api/**' }, { path: '/apis' }, false],
    [{ path: '/users/*/key' }, { path: '/users/7/key' }, true],
    [{ path: '/users/*/key' }, { path: '/users/7/8/key' }, false],
    [{ path: '/a/**/z' }, { path: '/a/b/c/z' }, true],
    [{ path: '/a/**/z' }, { path: '/a/z' }, true],
    [{ path: '/a.b' }, { path: '/aXb' }, false],
    [{ path: '/*.php' }, { path: '/x.php' }, true],
    [{ path: ['/x', '/y'] }, { path: '/y' }, true],
    [{ method: ['POST', 'put'] }, { method: 'PUT' }, true],
    [{ method: 'POST' }, { method: 'GET' }, false],
    [{ host: '*.shop.test' }, { host: 'a.shop.test' }, true],
    [{ host: '*.shop.test' }, { host: 'shop.test' }, false],
    [{ host: 'shop.test' }, { host: 'shop.test' }, true],
  ];
  for (const [match, sent, counts] of rows) {
    const passed = await setUp(only({ match, limit: '1/min' })).passing(2, () => sent);
    t.equal(passed, counts ? 1 : 2, JSON.stringify([match, sent]));
  }
});

t.test('while the store is away each policy follows its onFailure', async (t) => {
  const down: CounterStore = {
    checkAll: () => Promise.reject(new Error('down')),
    close: async () => undefined,
  };
  const share = () => ({ nodes: 2, rank: 0, workers: 2, worker: 0 });
  const { passing: local } = setUp(only({ limit: '40/min' }), { store: down, share });
  t.equal(await local(100, () => ({})), 10, 'local: this worker holds its share');
  const { send: pass } = setUp(only({ limit: '1/min', onFailure: 'pass' }), { store: down });
  for (let call = 0; call < 3; call++)
    t.match(await pass({}), [{ id: 'LIMITS-UNAVAILABLE', kind: 'note', points: 0 }]);
  const { send: refuse } = setUp(only({ onFailure: 'refuse' }, { onFailure: 'pass' }), { store: down });
  t.match(await refuse({}), [{ id: 'LIMIT-P', kind: 'limit', points: 25 }, { id: 'LIMITS-UNAVAILABLE' }]);
});

t.test('the local stand-in is warm: what passed before the outage counts', async (t) => {
  let up = true;
  const clock = { nowMs: () => 5 };
  const memory = memoryStore({ clock });
  const store: CounterStore = {
    ...memory,
    checkAll: async (checks) => (up ? memory.checkAll(checks) : Promise.reject(new Error('down'))),
  };
  let told = 0;
  const { passing } = setUp(only({ limit: '10/min' }), { store, onStoreFailure: () => told++ });
  t.equal(await passing(7, () => ({})), 7);
  up = false;
  t.equal(await passing(10, () => ({})), 3);
  t.equal(told, 10);
});

t.test('config: what does not fit is refused with what would', async (t) => {
  const rows: [config: object, says: RegExp][] = [
    [{ policies: [{ name: 'p', limit: 'often' }] }, /5\/min/],
    [{ policies: [{ name: 'p', limit: '5000/min', algorithm: 'sliding-log' }] }, /sliding-log/],
    [{ policies: [{ name: 'p', limit: '5/min', cost: 6 }] }, /ever pass/],
    [{ policies: [{ name: 'p' }, { name: 'p' }] }, /twice/],
    [{ policies: [{ name: 'a b' }] }, /letters/],
    [{ policies: [{ name: 'p', by: ['cookie'] }] }, /by/],
    [{ polices: [] }, /polices/],
  ];
  for (const [config, says] of rows) {
    const parsed = limitsSection.safeParse(config);
    t.match(JSON.stringify(parsed.error?.issues ?? []).replaceAll('\\"', '"'), says);
  }
  t.ok(limitsSection.safeParse({}).success);
});
