/** Messages that are rare and allowed, or wrong in a way that should cost nobody the answer. */
import t from 'tap';
import { bench, FORM, SQLI } from '../support/case.js';
import { ok } from '../support/echo-upstream.js';
import { exchange, RawConnection, request } from '../support/raw-client.js';

t.test('header names that an origin may take for others are not handed on', async (test) => {
  const at = await bench(test);
  const dropped = [
    'X_Forwarded_For',
    'X-Forwarded_For',
    'x_real_ip',
    'X_REQUEST_ID',
    'Client-IP',
    'Proxy',
    'X-Forwarded-Client-Cert',
    'X-Azure-ClientIP',
    'Content_Length',
    'Transfer_Encoding',
    'User_Agent',
  ];
  const kept = ['X_Tenant', 'My_Header-Name', 'x_api_key'];
  const headers = [...dropped, ...kept].map((name): [string, string] => [name, '7']);
  test.equal((await exchange(at.gate.port, request({ headers }))).status, 200);
  for (const name of dropped) test.notOk(at.up.last?.all(name).includes('7'), `${name} does not go on`);
  for (const name of kept) test.strictSame(at.up.last?.all(name), ['7'], `${name} goes on`);
  test.strictSame(at.up.last?.all('x-forwarded-for'), ['127.0.0.1'], 'ours is there once');
});

t.test('an Upgrade that is no WebSocket is served as ordinary HTTP', async (test) => {
  const at = await bench(test);
  const h2c = [
    ['Connection', 'Upgrade, HTTP2-Settings'],
    ['Upgrade', 'h2c'],
    ['HTTP2-Settings', 'AAMAAABkAARAAAAAAAIAAAAA'],
  ] as const;
  const connection = await RawConnection.open(at.gate.port);
  await connection.send(request({ target: '/first', headers: h2c }));
  test.equal((await connection.read()).status, 200, 'without a body');
  await connection.send(request({ target: '/second', headers: [...h2c, FORM], body: 'a=1' }));
  test.equal((await connection.read()).status, 200, 'with a body, on the same connection');
  test.equal(at.up.last?.body.toString(), 'a=1');
  test.equal(at.up.last?.header('upgrade'), undefined, 'the origin is not asked');
  test.equal(at.up.last?.header('http2-settings'), undefined);
  const attack = [...h2c, FORM];
  await connection.send(request({ headers: attack, body: `q=${SQLI}` }));
  test.equal((await connection.read()).status, 403, 'an attack is refused as ever');
  connection.destroy();
});

t.test('what an origin says oddly does not cost the client its answer', async (test) => {
  const at = await bench(test);
  const final = ok('fine').toString('latin1');
  const early = 'HTTP/1.1 103 Early Hints\r\nLink: garbage\r\nLink: </a.css>; rel=preload\r\n\r\n';
  at.up.script = (seen) => {
    if (seen.target === '/hints') return early + final;
    if (seen.target === '/continue') return `HTTP/1.1 100 Continue\r\n\r\n${final}`;
    return Buffer.from(final.replace('200 OK', '200 d\xe9j\xe0 vu \u0001'), 'latin1');
  };
  const hinted = await RawConnection.open(at.gate.port);
  await hinted.send(request({ target: '/hints' }));
  const hint = await hinted.read({ interim: true });
  test.equal(hint.status, 103, 'good hints go on');
  test.equal(hint.header('link'), '</a.css>; rel=preload', 'bad ones do not');
  test.equal((await hinted.read()).text(), 'fine');
  hinted.destroy();
  const old = Buffer.from('GET /hints HTTP/1.0\r\nHost: app.test\r\n\r\n');
  test.equal((await exchange(at.gate.port, old, { interim: true })).status, 200, 'HTTP/1.0 gets no 103');
  const asked = await exchange(at.gate.port, request({ target: '/continue' }));
  test.equal(asked.text(), 'fine', 'a 100 that nobody asked for');
  const named = await exchange(at.gate.port, request({ target: '/reason' }));
  test.equal(named.text(), 'fine', 'a reason phrase with other bytes');
  test.equal(at.gate.events(({ action }) => action === 'error').length, 0);
});

t.test('OPTIONS * is answered, and no origin is blamed for it', async (test) => {
  const at = await bench(test, { health: { failures: 1, backoff: '1m' } });
  const answer = await exchange(at.gate.port, request({ method: 'OPTIONS', target: '*' }));
  test.equal(answer.status, 204);
  test.match(answer.header('allow'), /GET/);
  const event = await at.gate.event(({ method }) => method === 'OPTIONS');
  test.match(event, { status: 204, action: 'pass' });
  test.equal(event.error, undefined);
  test.equal((await exchange(at.gate.port, request())).status, 200);
});

t.test('other versions of HTTP end before the origin', async (test) => {
  const at = await bench(test);
  const rest = 'Host: app.test\r\n\r\n';
  for (const [line, status] of [
    ['GET /x', 400],
    ['GET /x HTTP/0.9', 400],
    ['GET /x HTTP/2.0', 505],
    ['GET /x HTTP/1.2', 400],
    ['GET /x HTTP/3.0', 400],
  ] as const) {
    const answer = await exchange(at.gate.port, `${line}\r\n${line === 'GET /x' ? '\r\n' : rest}`);
    test.equal(answer.status, status, line);
  }
  test.equal(at.up.bytesReceived, 0, 'the origin saw nothing');
});
