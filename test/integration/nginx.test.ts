/** The shipped nginx files before a real gate: whose address counts, and what a flood meets. */
import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import t, { type Test } from 'tap';
import { bench, type Bench } from '../support/case.js';
import type { ConfigTree } from '../support/gate.js';
import { startNginx, withoutNginx, type Nginx } from '../support/nginx.js';

const CLIENT = '127.0.0.9';
const skip = withoutNginx('http');

const SWITCHING = 'HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n';

/** Each from an address of its own, so that the client is never the proxy. */
async function open(port: number, from: string): Promise<Socket> {
  const socket = connect({ port, host: '127.0.0.1', localAddress: from });
  socket.on('error', () => undefined);
  await once(socket, 'connect');
  return socket;
}

/** Everything until the other side closes, or twenty seconds have passed. */
function answerOf(socket: Socket): Promise<string> {
  return new Promise((done) => {
    let text = '';
    const timer = setTimeout(() => socket.destroy(), 20_000);
    socket.on('data', (part: Buffer) => (text += part.toString('latin1')));
    socket.once('close', () => {
      clearTimeout(timer);
      done(text);
    });
  });
}

type Sent = Readonly<{ from?: string; path?: string; head?: string; before?: string }>;

async function get(port: number, { from = CLIENT, path = '/', head = '', before = '' }: Sent = {}) {
  const socket = await open(port, from);
  const answer = answerOf(socket);
  socket.write(`${before}GET ${path} HTTP/1.1\r\nHost: app.test\r\nConnection: close\r\n`);
  socket.write(`User-Agent: Mozilla/5.0\r\nAccept: */*\r\n${head}\r\n`);
  const text = await answer;
  return { status: Number(/^HTTP\/1\.1 (\d+)/.exec(text)?.[1] ?? 0), text };
}

type Layer = Bench & { nginx: Nginx };

async function layered(test: Test, file: string, config: ConfigTree = {}): Promise<Layer> {
  const at = await bench(test, { trustedProxies: ['127.0.0.1'], ...config });
  const isStream = file === 'stream.conf';
  const nginx = await startNginx(file, [
    isStream ? ['listen 443', 'listen 127.0.0.1:{port}'] : ['listen 80', 'listen 127.0.0.1:{port}'],
    isStream
      ? ['proxy_pass 127.0.0.1:8443', `proxy_pass 127.0.0.1:${at.gate.port}`]
      : ['server 127.0.0.1:8080', `server 127.0.0.1:${at.gate.port}`],
    ...(file === 'behind-proxy-protocol.conf'
      ? ([['set_real_ip_from 10.0.0.0/8', 'set_real_ip_from 127.0.0.5']] as const)
      : []),
  ]);
  test.teardown(() => nginx.stop());
  return { ...at, nginx };
}

const clientOf = async ({ gate }: Layer, path: string): Promise<string> =>
  (await gate.event((event) => event.path === path)).client.ip;

t.test('X-Forwarded-For: the address nginx sees counts, whatever the client writes', { skip }, async (test) => {
  const at = await layered(test, 'forwarded-for.conf');
  test.equal((await get(at.nginx.port, { path: '/plain' })).status, 200);
  test.equal(await clientOf(at, '/plain'), CLIENT);
  const head = 'X-Forwarded-For: 1.2.3.4\r\nX-Real-IP: 1.2.3.4\r\nForwarded: for=1.2.3.4\r\n';
  test.equal((await get(at.nginx.port, { path: '/spoofed', head })).status, 200);
  test.equal(await clientOf(at, '/spoofed'), CLIENT);
  const seen = at.up.requests.at(-1);
  test.notMatch(JSON.stringify(seen), '1.2.3.4', 'the origin does not see the claim either');
});

t.test('PROXY protocol from a balancer: its word counts and no other', { skip }, async (test) => {
  const at = await layered(test, 'behind-proxy-protocol.conf');
  const before = 'PROXY TCP4 198.51.100.7 203.0.113.1 4711 80\r\n';
  const told = await get(at.nginx.port, { from: '127.0.0.5', path: '/told', before });
  test.equal(told.status, 200);
  test.equal(await clientOf(at, '/told'), '198.51.100.7');
  const head = 'X-Forwarded-For: 1.2.3.4\r\n';
  await get(at.nginx.port, { from: '127.0.0.5', path: '/spoofed', before, head });
  test.equal(await clientOf(at, '/spoofed'), '198.51.100.7');
  await get(at.nginx.port, { from: '127.0.0.6', path: '/stranger', before });
  test.equal(await clientOf(at, '/stranger'), '127.0.0.6', 'a stranger is who it is');
});

t.test('PROXY protocol to the gate, from the stream module', { skip: withoutNginx('stream') }, async (test) => {
  const at = await layered(test, 'stream.conf', {
    listen: [{ address: '127.0.0.1:0', proxyProtocol: true }],
  });
  test.equal((await get(at.nginx.port, { path: '/stream' })).status, 200);
  test.equal(await clientOf(at, '/stream'), CLIENT);
  // Trusted is 127.0.0.1, the peer of the gate; this client is not, so its claim does not count.
  await get(at.nginx.port, { path: '/spoofed', head: 'X-Forwarded-For: 1.2.3.4\r\n' });
  test.equal(await clientOf(at, '/spoofed'), CLIENT);
});

t.test('a flood from one address is cut off by nginx, others pass', { skip }, async (test) => {
  const at = await layered(test, 'forwarded-for.conf');
  const sockets: Socket[] = [];
  for (let each = 0; each < 900; each++) sockets.push(await open(at.nginx.port, '127.0.0.66'));
  const startMs = performance.now();
  const answers = sockets.map(async (socket) => {
    const answer = answerOf(socket);
    socket.write('GET /flood HTTP/1.1\r\nHost: app.test\r\nAccept: */*\r\nConnection: close\r\n\r\n');
    return answer;
  });
  const other = get(at.nginx.port, { path: '/other' });
  const texts = await Promise.all(answers);
  const seconds = (performance.now() - startMs) / 1000;
  const cut = texts.filter((text) => text.startsWith('HTTP/1.1 429'));
  const passed = texts.filter((text) => text.startsWith('HTTP/1.1 200')).length;
  test.equal((await other).status, 200, 'another address meanwhile');
  test.equal(passed + cut.length, 900, 'every request has its answer');
  test.ok(passed >= 200, 'a burst of 200 passes', { passed });
  test.ok(passed <= 201 + Math.ceil(500 * seconds), 'and no more than the rate on top', { passed, seconds });
  test.ok(cut.length > 0, 'the rest is cut off', { cut: cut.length });
  test.match(cut[0], /Retry-After: 1\r\n/);
  test.match(cut[0], /problem\+json.*"status":429.*try again in 1 second/s);
  const seen = at.up.requests.filter(({ target }) => target === '/flood').length;
  test.equal(seen, passed, 'what was cut off never reached the origin');
});

t.test('WebSocket handshakes and the target pass unchanged', { skip }, async (test) => {
  const at = await layered(test, 'forwarded-for.conf');
  at.up.onHead = (seen) => (seen.target === '/ws' ? SWITCHING : undefined);
  const socket = await open(at.nginx.port, CLIENT);
  const first = once(socket, 'data');
  socket.write('GET /ws HTTP/1.1\r\nHost: app.test\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n');
  socket.write('Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n');
  const [data] = (await first) as [Buffer];
  test.match(data.toString('latin1'), /^HTTP\/1\.1 101 /);
  socket.destroy();
  await get(at.nginx.port, { path: '/a//b%2Fc?q=%20x' });
  test.equal(at.up.requests.at(-1)?.target, '/a//b%2Fc?q=%20x');
});
