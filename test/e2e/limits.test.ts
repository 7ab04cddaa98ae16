/** Limits are exact across workers: four workers never mean four times the limit. */
import t from 'tap';
import { bench, JSON_TYPE, type Bench } from '../support/case.js';
import { exchange, request, type RequestSpec } from '../support/raw-client.js';

async function atOnce({ gate }: Bench, count: number, spec: RequestSpec, width = 50): Promise<number[]> {
  const statuses: number[] = [];
  let next = 0;
  const client = async (): Promise<void> => {
    while (next++ < count)
      statuses.push((await exchange(gate.port, request(spec), { timeoutMs: 10_000 })).status);
  };
  await Promise.all(Array.from({ length: width }, client));
  return statuses;
}
const count = (statuses: readonly number[], wanted: number): number =>
  statuses.filter((status) => status === wanted).length;

t.test('four workers, login 5 a minute: exactly 5 of 200 at once pass', async (test) => {
  const at = await bench(test, { workers: 4 });
  const login = {
    method: 'POST',
    target: '/api/login',
    headers: [JSON_TYPE],
    body: '{"username":"ann","password":"x"}',
  };
  const statuses = await atOnce(at, 200, login, 100);
  test.equal(count(statuses, 200), 5, 'pass');
  test.equal(count(statuses, 429), 195, 'limited');
  test.equal(at.up.completed, 5, 'the origin saw five');
  const used = new Set(at.gate.events(({ path }) => path === '/api/login').map(({ worker }) => worker));
  test.ok(used.size >= 2, 'several workers took part', { workers: used.size });
});

t.test('four workers, API 600 a minute: 600 of 900 pass', async (test) => {
  const at = await bench(test, { workers: 4, limits: { policies: [{ name: 'ingress', enabled: false }] } });
  at.up.keep = false;
  const statuses = await atOnce(at, 900, {
    target: '/api/items',
    headers: [['Accept', 'application/json']],
  });
  const passed = count(statuses, 200);
  test.ok(passed >= 595 && passed <= 603, '600 pass, within 0.5 %', { passed });
  test.equal(passed + count(statuses, 429), 900, 'the others are limited');
});

t.test('identities have their own limits; refused calls are not counted', async (test) => {
  const policies = [
    { name: 'ingress', enabled: false },
    {
      name: 'api',
      match: { path: '/api/**' },
      by: ['apiKey', 'session', 'ip'],
      limit: '10/min',
      exact: true,
    },
  ];
  const identity = { apiKey: { header: 'x-api-key' }, session: { cookie: 'sid' } };
  const at = await bench(test, { workers: 2, identity, limits: { policies } });
  const spec = (name: string, value: string): RequestSpec => ({
    target: '/api/x',
    headers: [[name, value]],
  });
  test.equal(count(await atOnce(at, 15, spec('X-Api-Key', 'one'), 5), 200), 10, 'one key');
  test.equal(count(await atOnce(at, 15, spec('X-Api-Key', 'two'), 5), 200), 10, 'another key');
  test.equal(count(await atOnce(at, 15, spec('Cookie', 'sid=a'), 5), 200), 10, 'a session');
  test.equal(
    count(await atOnce(at, 15, { target: '/api/x' }, 5), 200),
    10,
    'the address where neither is given',
  );
});
