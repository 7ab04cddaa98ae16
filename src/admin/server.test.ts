import http from 'node:http';
import t, { type Test } from 'tap';
import { Fault } from '../core/errors.js';
import type { DecisionEvent } from '../core/event.js';
import { exposure, adminSection } from './config.js';
import type { AdminState } from './route.js';
import { createAdminServer, isOurs, type AdminOptions } from './server.js';

type Given = { method?: string; path: string; host?: string; token?: string; body?: string };
type Answer = { status: number; text: string; headers: http.IncomingHttpHeaders };

async function open(test: Test, state: Partial<AdminState> = {}, options: Partial<AdminOptions> = {}) {
  const calls: unknown[] = [];
  const whole: AdminState = {
    notReady: () => undefined,
    feeds: () => [{ feed: 'tor', state: 'waiting' }],
    limitStore: () => ({ store: 'embedded', state: 'ok' }),
    metrics: () => Promise.resolve('tidegate_up 1\n'),
    decisions: () => [{ requestId: 'r-1' } as DecisionEvent],
    controls: () => ({ mode: 'enforce' }),
    reload: () => Promise.resolve(void calls.push('reload')),
    sites: () => ['shop'],
    setMode: (mode, site) => Promise.resolve(void calls.push([mode, site])),
    limits: (ask) => (calls.push(ask), Promise.resolve({ limits: [] })),
    resetLimits: (ask, by) => (calls.push([ask, by.actor]), Promise.resolve({ limits: [] })),
    bans: () => Promise.resolve({ total: 0, bans: [], notes: [] }),
    banAudit: () => Promise.resolve([]),
    ban: (order, by) => (calls.push([order, by.actor]), Promise.resolve({} as never)),
    unban: (target, by) => (calls.push([target, by.actor, by.reason]), Promise.resolve({} as never)),
    ...state,
  };
  const settings = {
    host: '127.0.0.1',
    port: 0,
    hosts: ['gate.test'],
    token: 'right',
    tokenEnv: 'TOKEN',
    ...options,
  };
  const server = createAdminServer(whole, settings);
  const url = new URL(await server.listen());
  test.teardown(() => server.close());
  const ask = ({ method = 'GET', path, host = 'localhost', token, body }: Given): Promise<Answer> =>
    new Promise((resolve, reject) => {
      const headers = { Host: host, ...(token === undefined ? {} : { Authorization: token }) };
      const request = http.request({
        host: '127.0.0.1',
        port: url.port,
        method,
        path,
        headers,
        agent: false,
      });
      request.on('error', reject).on('response', (response) => {
        let text = '';
        response.on('data', (part: Buffer) => void (text += part.toString()));
        response.on('end', () =>
          resolve({ status: response.statusCode ?? 0, text, headers: response.headers }),
        );
      });
      request.end(body);
    });
  return { ask, calls };
}

t.test('what can be read needs no token', async (test) => {
  const { ask } = await open(test);
  const table: [path: string, status: number, text: RegExp][] = [
    ['/healthz', 200, /"ok"/],
    ['/readyz', 200, /"ready".*"tor".*"waiting"/],
    ['/metrics', 200, /^tidegate_up 1\n$/],
    ['/decisions', 200, /r-1/],
    ['/decisions/r-1', 200, /r-1/],
    ['/decisions/r-2', 404, /log/],
    ['/controls?x=1', 200, /enforce/],
    ['/nothing', 404, /\/healthz/],
    ['/decisions/..%2f', 404, /no such resource/],
  ];
  for (const [path, status, text] of table) {
    const answer = await ask({ path });
    test.equal(answer.status, status, path);
    test.match(answer.text, text, path);
    test.equal(answer.headers['cache-control'], 'no-store');
  }
  test.equal((await ask({ method: 'HEAD', path: '/metrics' })).status, 200);
});

t.test('what changes state needs the token', async (test) => {
  const { ask, calls } = await open(test);
  const body = '{"mode":"observe"}';
  const table: [name: string, given: Given, status: number][] = [
    ['none', { method: 'POST', path: '/reload' }, 401],
    ['a wrong one', { method: 'POST', path: '/reload', token: 'Bearer wrong' }, 401],
    ['another scheme', { method: 'POST', path: '/mode', token: 'Basic right', body }, 401],
    ['as a query', { method: 'POST', path: '/reload?token=right' }, 401],
    ['by GET', { path: '/reload', token: 'Bearer right' }, 405],
  ];
  for (const [name, given, status] of table) test.equal((await ask(given)).status, status, name);
  test.strictSame(calls, [], 'nothing was done');
  test.equal((await ask({ method: 'POST', path: '/reload', token: 'Bearer right' })).status, 200);
  test.equal((await ask({ method: 'POST', path: '/mode', token: 'Bearer right', body })).status, 200);
  test.strictSame(calls, ['reload', ['observe', undefined]]);
});

t.test('without a token in the environment nothing can be changed, and it says what to do', async (test) => {
  for (const token of [undefined, '']) {
    const { ask } = await open(test, {}, { token });
    const answer = await ask({ method: 'POST', path: '/reload', token: 'Bearer ' });
    test.equal(answer.status, 403);
    test.match(answer.text, /TOKEN is not set.*set it/);
  }
});

t.test('the mode: what is sent is checked', async (test) => {
  const { ask, calls } = await open(test);
  const table: [body: string, status: number][] = [
    ['', 400],
    ['{', 400],
    ['[]', 400],
    ['null', 400],
    ['{"mode":"off"}', 400],
    ['{"mode":"observe","site":"nowhere"}', 404],
    ['{"mode":"observe","site":7}', 404],
    [`{"mode":"observe","x":"${'x'.repeat(20_000)}"}`, 413],
    ['{"mode":"enforce","site":"shop"}', 200],
  ];
  for (const [body, status] of table) {
    const answer = await ask({ method: 'POST', path: '/mode', token: 'Bearer right', body });
    test.equal(answer.status, status, body.slice(0, 60));
  }
  test.strictSame(calls, [['enforce', 'shop']]);
});

t.test('limits: asked with the token, what is sent is checked, and a reset names who asked', async (test) => {
  const { ask, calls } = await open(test);
  const table: [body: string, status: number][] = [
    ['', 400],
    ['{}', 400],
    ['{"policy":"api"}', 400],
    ['{"ip":7}', 400],
    ['{"ip":""}', 400],
    [`{"session":"${'x'.repeat(5000)}"}`, 400],
    ['{"ip":"1.2.3.4","colour":"red"}', 400],
    ['{"ip":"1.2.3.4","policy":"api"}', 200],
  ];
  for (const [body, status] of table) {
    const answer = await ask({ method: 'POST', path: '/limits', token: 'Bearer right', body });
    test.equal(answer.status, status, body.slice(0, 60));
  }
  const body = '{"ip":"1.2.3.4","actor":"ann@desk\\u0000"}';
  test.equal((await ask({ method: 'POST', path: '/limits/reset', body })).status, 401);
  test.equal((await ask({ method: 'POST', path: '/limits', body })).status, 401);
  await ask({ method: 'POST', path: '/limits/reset', token: 'Bearer right', body });
  test.strictSame(calls, [{ ip: '1.2.3.4', policy: 'api' }, [{ ip: '1.2.3.4' }, 'ann@desk']]);
});

t.test('bans: what is sent is checked, changes need the token, and name who asked', async (test) => {
  const { ask, calls } = await open(test);
  const whole = '"for":"1h","reason":"abuse\\u001b report","actor":"ann@desk"';
  const table: [path: string, body: string, status: number][] = [
    ['/bans', '{}', 400],
    ['/bans', `{${whole}}`, 400],
    ['/bans', `{"address":"203.0.113.9","key":"k",${whole}}`, 400],
    ['/bans', `{"address":7,${whole}}`, 400],
    ['/bans', `{"session":"${'x'.repeat(5000)}",${whole}}`, 400],
    ['/bans', '{"address":"203.0.113.9","reason":"x"}', 400],
    ['/bans', '{"address":"203.0.113.9","for":"1h","reason":" "}', 400],
    ['/bans', `{"address":"203.0.113.9","force":"yes",${whole}}`, 400],
    ['/bans', `{"address":"203.0.113.9",${whole}}`, 200],
    ['/bans/lift', `{"session":"abc",${whole}}`, 400],
    ['/bans/lift', '{"session":"abc","reason":"mistake","actor":"ann@desk"}', 200],
  ];
  for (const [path, body, status] of table) {
    const answer = await ask({ method: 'POST', path, token: 'Bearer right', body });
    test.equal(answer.status, status, `${path} ${body.slice(0, 60)}`);
    test.equal((await ask({ method: 'POST', path, body })).status, 401);
  }
  const order = { address: '203.0.113.9', for: '1h', reason: 'abuse report', observe: false, force: false };
  test.strictSame(calls, [
    [order, 'ann@desk'],
    [{ session: 'abc' }, 'ann@desk', 'mistake'],
  ]);
  test.equal((await ask({ path: '/bans' })).text, '{"total":0,"bans":[],"notes":[]}');
  test.equal((await ask({ path: '/bans/audit' })).text, '{"entries":[]}');
});

t.test('a reload that is refused says why and what to do', async (test) => {
  const reload = (): Promise<void> => Promise.reject(new Fault('RELOAD_REFUSED', { why: 'line 3' }));
  const { ask } = await open(test, { reload });
  const answer = await ask({ method: 'POST', path: '/reload', token: 'bearer right' });
  test.equal(answer.status, 422);
  test.match(answer.text, /RELOAD_REFUSED.*line 3.*correct the config/);
});

t.test('not ready is 503 with the reason; a broken answer is 500, not a crash', async (test) => {
  const { ask } = await open(test, {
    notReady: () => '1 of 4 workers listen',
    metrics: () => Promise.reject(new Error('boom')),
  });
  const ready = await ask({ path: '/readyz' });
  test.equal(ready.status, 503);
  test.match(ready.text, /1 of 4.*"tor"/);
  test.equal((await ask({ path: '/metrics' })).status, 500);
  test.equal((await ask({ path: '/healthz' })).status, 200);
});

t.test('a name that is not ours is refused (DNS rebinding)', async (test) => {
  const { ask } = await open(test);
  const table: [host: string, ours: boolean][] = [
    ['localhost', true],
    ['LocalHost:9091', true],
    ['127.0.0.1:9091', true],
    ['10.1.2.3', true],
    ['[::1]:9091', true],
    ['gate.test:9091', true],
    ['evil.test', false],
    ['localhost.evil.test', false],
    ['127.0.0.1.evil.test', false],
    ['[::1].evil.test', false],
    ['', false],
  ];
  for (const [host, ours] of table) test.equal(isOurs(host, ['gate.test']), ours, host);
  test.equal((await ask({ path: '/controls', host: 'evil.test' })).status, 421);
});

t.test('an address that is taken is told as such', async (test) => {
  const holder = http.createServer();
  await new Promise<void>((resolve) => holder.listen(0, '127.0.0.1', resolve));
  test.teardown(() => holder.close());
  const { port } = holder.address() as { port: number };
  await test.rejects(open(test, {}, { port }), { code: 'LISTEN_FAILED' });
});

t.test('a listener that others can reach needs a token', (test) => {
  const table: [listen: string, token: string | undefined, exposed: boolean][] = [
    ['127.0.0.1:9091', undefined, false],
    ['localhost:9091', undefined, false],
    ['[::1]:9091', '', false],
    ['0.0.0.0:9091', undefined, true],
    ['[::]:9091', '', true],
    [':9091', undefined, true],
    ['9091', undefined, true],
    ['10.0.0.1:9091', undefined, true],
    ['127.0.0.1.test:9091', undefined, true],
    ['0.0.0.0:9091', 'token', false],
  ];
  for (const [listen, token, exposed] of table) {
    const fault = exposure(adminSection.parse({ listen }), token);
    test.equal(fault?.code, exposed ? 'ADMIN_EXPOSED' : undefined, `${listen} with ${token ?? 'no'} token`);
  }
  test.equal(exposure(adminSection.parse({ enabled: false, listen: '0.0.0.0:1' }), undefined), undefined);
  test.end();
});
