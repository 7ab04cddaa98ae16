/** PROXY protocol v1 and v2 through the gate: whose word counts, what is refused; TLS; reload. */
import { setTimeout as sleep } from 'node:timers/promises';
import t, { type Test } from 'tap';
import { bench, until, type Bench } from '../support/case.js';
import { makeCertificate, noCertificates } from '../support/certificate.js';
import { fullConfig, type ConfigTree } from '../support/gate.js';
import { exchange, RawConnection, request } from '../support/raw-client.js';

const LISTEN = [{ address: '127.0.0.1:0', proxyProtocol: true }];
const TRUSTED = { trustedProxies: ['127.0.0.1'], timeouts: { headers: '700ms' } };
const SIGNATURE = Buffer.from('\r\n\r\n\0\r\nQUIT\n', 'latin1');
const LONG_MS = 10_000;

function v1(ip: string): Buffer {
  const family = ip.includes(':') ? 'TCP6' : 'TCP4';
  return Buffer.from(`PROXY ${family} ${ip} ${family === 'TCP4' ? '192.0.2.1' : '2001:db8::1'} 4000 443\r\n`);
}

/** `command` 1: PROXY, 0: LOCAL; extras (TLVs) follow the addresses. */
function v2(address: Buffer, { family, command = 1, extra = Buffer.alloc(0) }: V2): Buffer {
  const size = Buffer.alloc(2);
  size.writeUInt16BE(address.length + extra.length);
  return Buffer.concat([SIGNATURE, Buffer.from([0x20 | command, family]), size, address, extra]);
}
type V2 = { family: number; command?: number; extra?: Buffer };

const INET = Buffer.from([203, 0, 113, 7, 192, 0, 2, 1, 15, 160, 1, 187]);
const INET6 = Buffer.concat([
  Buffer.from('20010db8000500060000000000000007', 'hex'),
  Buffer.from('20010db8000000000000000000000001', 'hex'),
  Buffer.from([15, 160, 1, 187]),
]);
const TLVS = Buffer.concat([Buffer.from([0xee, 0, 64]), Buffer.alloc(64, 1)]);

async function gateOf(test: Test, config: ConfigTree = {}): Promise<Bench> {
  const files = { 'block.txt': '203.0.113.66\n' };
  const tree = { listen: LISTEN, ...TRUSTED, reputation: { blocklist: 'block.txt' }, ...config };
  return bench(test, tree, { files });
}

const HEADERS = [
  { name: 'v1, IPv4', header: v1('203.0.113.7'), ip: '203.0.113.7' },
  { name: 'v1, IPv6', header: v1('2001:db8:5:6::7'), ip: '2001:db8:5:6::7' },
  { name: 'v1, mapped IPv4', header: v1('::ffff:203.0.113.8'), ip: '203.0.113.8' },
  { name: 'v1, UNKNOWN', header: Buffer.from('PROXY UNKNOWN\r\n'), ip: '127.0.0.1' },
  { name: 'v2, IPv4', header: v2(INET, { family: 0x11 }), ip: '203.0.113.7' },
  { name: 'v2, IPv6', header: v2(INET6, { family: 0x21 }), ip: '2001:db8:5:6::7' },
  { name: 'v2, with TLVs', header: v2(INET, { family: 0x11, extra: TLVS }), ip: '203.0.113.7' },
  { name: 'v2, LOCAL', header: v2(INET, { family: 0x11, command: 0 }), ip: '127.0.0.1' },
];

t.test('the address in the header is the client', async (test) => {
  const at = await gateOf(test);
  for (const [n, { name, header, ip }] of HEADERS.entries()) {
    const sent = Buffer.concat([header, request({ target: `/pp/${n}` })]);
    const answer = await exchange(at.gate.port, sent, { timeoutMs: LONG_MS });
    test.equal(answer.status, 200, `${name}: served`);
    const event = await at.gate.event(({ path }) => path === `/pp/${n}`);
    test.equal(event.client.ip, ip, `${name}: ${ip}`);
    const told = ip === '127.0.0.1' ? ip : `${ip}, 127.0.0.1`;
    test.equal(at.up.last?.header('x-forwarded-for'), told, `${name}: the origin is told`);
  }
  const pieces = await RawConnection.open(at.gate.port);
  const whole = Buffer.concat([v1('203.0.113.9'), request({ target: '/pieces' })]);
  for (let from = 0; from < 60; from += 6) {
    await pieces.send(whole.subarray(from, from + 6));
    await sleep(5);
  }
  await pieces.send(whole.subarray(60));
  test.equal((await pieces.read()).status, 200, 'a header that arrives in pieces');
  await pieces.send(request({ target: '/second' }));
  test.equal((await pieces.read()).status, 200, 'the next request of the connection');
  const second = await at.gate.event(({ path }) => path === '/second');
  test.equal(second.client.ip, '203.0.113.9', 'has the same client');
  pieces.destroy();
  const listed = Buffer.concat([v1('203.0.113.66'), request()]);
  test.equal((await exchange(at.gate.port, listed)).status, 403, 'lists apply to it');
  const forged = request({ target: '/forged', headers: [['X-Forwarded-For', '198.51.100.5']] });
  await exchange(at.gate.port, Buffer.concat([v1('203.0.113.7'), forged]));
  const event = await at.gate.event(({ path }) => path === '/forged');
  test.equal(event.client.ip, '203.0.113.7', 'which is no trusted proxy: its X-Forwarded-For does not count');
});

t.test('anything but a header closes the connection', async (test) => {
  const at = await gateOf(test);
  const rows = [
    { name: 'no header', bytes: request() },
    { name: 'rubbish', bytes: Buffer.from('QROXY TCP4 1.2.3.4 1.2.3.4 1 1\r\n') },
    { name: 'a v1 line without an end', bytes: Buffer.from(`PROXY TCP4 ${'1'.repeat(200)}`) },
    { name: 'a v1 line with a word too few', bytes: Buffer.from('PROXY TCP4 203.0.113.7\r\n') },
    {
      name: 'a v2 of another version',
      bytes: Buffer.concat([SIGNATURE, Buffer.from([0x11, 0x11, 0, 12]), INET]),
    },
    { name: 'a v2 of 64 KB', bytes: Buffer.concat([SIGNATURE, Buffer.from([0x21, 0x11, 0xff, 0xff])]) },
    { name: 'a v2 too short for its family', bytes: v2(INET.subarray(0, 8), { family: 0x11 }) },
    { name: 'half a header, then silence', bytes: v1('203.0.113.7').subarray(0, 20) },
    { name: 'silence', bytes: Buffer.alloc(0) },
  ];
  for (const { name, bytes } of rows) {
    const connection = await RawConnection.open(at.gate.port);
    await connection.send(bytes);
    test.ok(await connection.closes(LONG_MS), name);
    connection.destroy();
  }
  const gone = await RawConnection.open(at.gate.port);
  await gone.send(v1('203.0.113.7').subarray(0, 10));
  gone.reset();
  const addressless = Buffer.concat([Buffer.from('PROXY TCP4 999.1.1.1 1.1.1.1 1 1\r\n'), request()]);
  test.not((await exchange(at.gate.port, addressless)).status, 200, 'an address that is none');
  test.equal(at.up.bytesReceived, 0, 'the origin saw no byte');
  const good = Buffer.concat([v1('203.0.113.7'), request()]);
  test.equal((await exchange(at.gate.port, good)).status, 200, 'the gate serves on');
});

t.test('whose header counts is re-read on reload', async (test) => {
  const config = { trustedProxies: ['10.0.0.0/8'] };
  const at = await gateOf(test, config);
  const sent = Buffer.concat([v1('203.0.113.7'), request()]);
  const statusOf = async () => (await exchange(at.gate.port, sent, { timeoutMs: 3000 })).status;
  const take = async (trustedProxies: string[]): Promise<void> => {
    const before = at.gate.lines.length;
    at.gate.writeConfig({ ...fullConfig({ listen: LISTEN }, at.up.url), trustedProxies });
    at.gate.reload();
    const said = () => at.gate.lines.slice(before).some((line) => line.includes('"reloaded"'));
    test.ok(await until(said, 20_000), `reloaded with ${trustedProxies.join()}`);
  };
  test.equal(await statusOf(), 0, 'a peer that is not trusted is refused');
  test.equal(at.up.bytesReceived, 0, 'the origin saw no byte');
  await take(['127.0.0.0/8']);
  test.equal(await statusOf(), 200, 'trusted from then on');
  await take(['10.0.0.0/8']);
  test.equal(await statusOf(), 0, 'and not any more');
});

t.test('a header before the TLS handshake', { skip: noCertificates }, async (test) => {
  const { cert, key } = makeCertificate();
  const listen = [{ ...LISTEN[0], tls: { cert: 'cert.pem', key: 'key.pem' } }];
  const at = await bench(test, { listen, ...TRUSTED }, { files: { 'cert.pem': cert, 'key.pem': key } });
  for (const [n, { name, header, ip }] of HEADERS.entries()) {
    const tls = { servername: 'app.test', prefix: header };
    const answer = await exchange(at.gate.port, request({ target: `/tls/${n}` }), { tls });
    test.equal(answer.status, 200, `${name}: served`);
    const event = await at.gate.event(({ path }) => path === `/tls/${n}`);
    test.equal(event.client.ip, ip, `${name}: ${ip}`);
  }
  test.equal(at.up.last?.header('x-forwarded-proto'), 'https', 'as HTTPS');
  const bare = await RawConnection.openTls(at.gate.port, {}).catch(() => undefined);
  test.equal(bare, undefined, 'no handshake without a header');
});
