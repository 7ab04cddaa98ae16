/** What a client is told about limits: on refused requests, on handshakes, and by the origin. */
import t from 'tap';
import { bench, type Bench } from '../support/case.js';
import { BROWSER, exchange, request, type Answer, type RequestSpec } from '../support/raw-client.js';

const policies = [
  { name: 'ingress', enabled: false },
  { name: 'api', match: { path: '/api/**' }, limit: '600/min', exact: true },
  { name: 'search', match: { path: '/api/search' }, limit: '2/min', exact: true },
  { name: 'socket', match: { path: '/ws' }, limit: '1/min', exact: true },
];
const send = ({ gate }: Bench, spec: RequestSpec): Promise<Answer> => exchange(gate.port, request(spec));
const HANDSHAKE: RequestSpec = {
  target: '/ws',
  headers: [
    ['Connection', 'Upgrade'],
    ['Upgrade', 'websocket'],
    ['Sec-WebSocket-Version', '13'],
    ['Sec-WebSocket-Key', 'dGhlIHNhbXBsZSBub25jZQ=='],
  ],
};

t.test('refused: a person and a program both learn when to come back', async (test) => {
  const at = await bench(test, { limits: { policies } });
  for (let call = 0; call < 2; call++) {
    const answer = await send(at, { target: '/api/search' });
    test.equal(answer.status, 200);
    test.equal(answer.header('ratelimit'), undefined, 'nothing on the answers of the origin');
  }
  const program = await send(at, { target: '/api/search', headers: [['Accept', 'application/json']] });
  test.equal(program.status, 429);
  test.match(program.header('content-type'), /problem\+json/);
  const waitS = Number(program.header('retry-after'));
  test.ok(waitS >= 1 && waitS <= 145, 'a wait within the window and its jitter', { waitS });
  test.equal(program.header('ratelimit-policy'), '"search";q=2;w=60');
  test.match(program.header('ratelimit'), /^"search";r=0;t=\d+$/);
  test.ok(program.header('x-request-id'));
  test.match(program.text(), /Please try again in \d+ (?:seconds|minutes)\./);

  const person = await send(at, { target: '/api/search', headers: BROWSER });
  test.equal(person.status, 429);
  test.match(person.header('content-type'), /html/);
  test.match(person.text(), /<h1>Too Many Requests<\/h1>.*Please try again in \d+/s);
});

t.test('refused: a WebSocket handshake is told the same', async (test) => {
  const at = await bench(test, { limits: { policies } });
  await send(at, { target: '/ws' });
  const answer = await send(at, HANDSHAKE);
  test.equal(answer.status, 429);
  test.ok(Number(answer.header('retry-after')) >= 1);
  test.equal(answer.header('ratelimit-policy'), '"socket";q=1;w=60');
  test.match(answer.header('ratelimit'), /^"socket";r=0;t=\d+$/);
  test.ok(answer.header('x-request-id'));
});

t.test('always: the answers of the origin carry the strictest policy first', async (test) => {
  const at = await bench(test, { limits: { headers: 'always', policies } });
  const answer = await send(at, { target: '/api/search' });
  test.equal(answer.status, 200);
  test.equal(answer.header('ratelimit-policy'), '"search";q=2;w=60, "api";q=600;w=60');
  test.match(answer.header('ratelimit'), /^"search";r=1;t=\d+, "api";r=599;t=\d+$/);
  test.equal((await send(at, { target: '/free' })).header('ratelimit'), undefined, 'where nothing counts');
});

t.test('off: only Retry-After is left', async (test) => {
  const at = await bench(test, { limits: { headers: 'off', policies } });
  for (let call = 0; call < 2; call++) await send(at, { target: '/api/search' });
  await send(at, { target: '/ws' });
  for (const spec of [{ target: '/api/search' }, HANDSHAKE]) {
    const answer = await send(at, spec);
    test.equal(answer.status, 429);
    test.ok(Number(answer.header('retry-after')) >= 1);
    test.equal(answer.header('ratelimit') ?? answer.header('ratelimit-policy'), undefined);
  }
});
