/** Public hard case D02: WebSocket handshakes refused or reset, plain and over TLS; counts scaled down. */
import { readdirSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import t, { type Test } from 'tap';
import { bench, SQLI, until, type Bench } from '../support/case.js';
import { makeCertificate, noCertificates } from '../support/certificate.js';
import { exchange, RawConnection, request, type TlsOptions } from '../support/raw-client.js';

const TIMEOUTS = { timeouts: { upgrade: '500ms' } };
const descriptors = ({ gate }: Bench): number =>
  gate.workers().reduce((sum, pid) => sum + readdirSync(`/proc/${pid}/fd`).length, 0);

const WEBSOCKET = [
  ['Connection', 'Upgrade'],
  ['Upgrade', 'websocket'],
  ['Sec-WebSocket-Version', '13'],
  ['Sec-WebSocket-Key', 'dGhlIHNhbXBsZSBub25jZQ=='],
] as const;
const handshake = (target = '/ws'): Buffer => request({ target, headers: WEBSOCKET });

t.test('D02: WebSocket refused or reset', async (test) => {
  await refusedOrReset(test, await bench(test, TIMEOUTS));
});

t.test('D02: WebSocket refused or reset, over TLS', { skip: noCertificates }, async (test) => {
  const { cert, key } = makeCertificate();
  const listen = [{ address: '127.0.0.1:0', tls: { cert: 'cert.pem', key: 'key.pem' } }];
  const files = { 'cert.pem': cert, 'key.pem': key };
  const tls = { servername: 'app.test' };
  await refusedOrReset(test, await bench(test, { listen, ...TIMEOUTS }, { files }), tls);
});

async function refusedOrReset(test: Test, at: Bench, tls?: TlsOptions): Promise<void> {
  const over = tls === undefined ? {} : { tls };
  const open = () => (tls ? RawConnection.openTls(gate.port, tls) : RawConnection.open(gate.port));
  const refusal = 'HTTP/1.1 403 Forbidden\r\nX-Why: no\r\nContent-Length: 20\r\n\r\n12345678901234567890';
  const before = descriptors(at);
  const { up, gate } = at;
  up.onHead = () => refusal;
  for (let n = 0; n < 30; n++) {
    const answer = await exchange(gate.port, handshake(), { timeoutMs: 2000, ...over });
    if (n > 0 && answer.status === 403) continue;
    test.equal(answer.status, 403, '(a) the status is relayed');
    test.equal(answer.header('x-why'), 'no', '(a) the headers are relayed');
    test.equal(answer.text(), '12345678901234567890', '(a) the body is relayed');
  }
  up.onHead = (_seen, socket) => {
    socket.resetAndDestroy();
    return undefined;
  };
  const statuses = new Set<number>();
  for (let n = 0; n < 30; n++)
    statuses.add((await exchange(gate.port, handshake(), { timeoutMs: 2000, ...over })).status);
  test.strictSame([...statuses], [502], '(b) an origin that resets: 502');
  up.onHead = () => undefined;
  for (let n = 0; n < 30; n++) {
    const connection = await open();
    await connection.send(handshake());
    if (n % 2 === 0) await sleep(5);
    connection.reset();
  }
  test.ok(
    await until(() => up.open === 0, 2000),
    '(c, f) a client that resets takes the origin connection along',
    { open: up.open },
  );
  const late = await exchange(gate.port, handshake(), { timeoutMs: 3000, ...over });
  test.equal(late.status, 504, '(d) an origin that never answers: 504 at the handshake deadline');
  up.onHead = (_seen, socket) => {
    socket.write('HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n');
    return undefined;
  };
  for (let n = 0; n < 30; n++) {
    const connection = await open();
    await connection.send(handshake());
    await connection.read({ timeoutMs: 2000 });
    await connection.send(Buffer.from([0x81, 0xfe, 0x10]));
    connection.reset();
  }
  test.ok(await until(() => up.open === 0, 2000), '(e) a reset in mid-message closes both sides', {
    open: up.open,
  });
  up.reset();
  test.equal((await exchange(gate.port, request(), over)).status, 200, 'the gate serves on');
  await until(() => descriptors(at) <= before + 4, 2000);
  test.ok(descriptors(at) <= before + 4, 'descriptors stay flat', { before, after: descriptors(at) });
  test.equal(gate.exit, undefined, 'no crash');
  const attack = await exchange(gate.port, handshake(`/ws?q=${encodeURIComponent(SQLI)}`), over);
  test.equal(attack.status, 403, 'a handshake passes the pipeline first');
}
