/** Public hard cases about client identity and reputation (E01, E03, E04, E08), as seen through the gate. */
import { setTimeout as sleep } from 'node:timers/promises';
import { renameSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { bench, until, type Bench } from '../support/case.js';
import { TOKEN } from '../support/gate.js';
import type { Pair } from '../support/bytes.js';
import { exchange, request } from '../support/raw-client.js';

const TEN = {
  policies: [
    { name: 'ingress', enabled: false },
    { name: 'api', match: { path: '/**' }, by: ['ip'], limit: '10/min', exact: true },
  ],
};

async function statusOf({ gate }: Bench, headers: readonly Pair[], target = '/'): Promise<number> {
  return (await exchange(gate.port, request({ target, headers }))).status;
}
const via = (ip: string): Pair[] => [['X-Forwarded-For', ip]];

async function passed(at: Bench, addresses: readonly string[]): Promise<number> {
  let count = 0;
  for (const ip of addresses) if ((await statusOf(at, via(ip))) === 200) count += 1;
  return count;
}
const many = (count: number, make: (n: number) => string): string[] =>
  Array.from({ length: count }, (_, n) => make(n));

t.test('E01: IPv6 rotation', async (test) => {
  const at = await bench(
    test,
    { limits: TEN, trustedProxies: ['127.0.0.1'], reputation: { blocklist: 'block.txt' } },
    { files: { 'block.txt': '2001:db8:7:7::1\n' } },
  );
  const inside = await passed(
    at,
    many(200, (n) => `2001:db8:1:2::${(n + 1).toString(16)}`),
  );
  test.ok(inside >= 10 && inside <= 11, '(a) one /64 is one client', { inside });
  const wide = await passed(
    at,
    many(500, (n) => `2001:db8:2:${(0x1100 + (n % 256)).toString(16)}::${(n + 1).toString(16)}`),
  );
  test.ok(wide < 300, '(b) a /56 is held by a second, wider limit', { wide });
  const honest = await passed(
    at,
    many(20, (n) => `2001:db8:3:${(n * 0x100).toString(16)}::5`),
  );
  test.equal(honest, 20, '(c) neighbours in one /48 are not limited');
  for (const ip of ['2001:db8:7:7::1', '2001:db8:7:7:8::2']) {
    test.equal(await statusOf(at, via(ip)), 403, `(d) a listed address covers its prefix: ${ip}`);
  }
});
t.test('E01 (d): a ban made at run time covers the prefix', async (test) => {
  const at = await bench(test, { trustedProxies: ['127.0.0.1'] });
  const made = await at.gate.admin('/bans', {
    method: 'POST',
    headers: { Authorization: `Bearer ${TOKEN}` },
    body: JSON.stringify({ address: '2001:db8:7:7::1', for: '1h', reason: 'E01' }),
  });
  test.equal(made.status, 200);
  const banned = async (ip: string): Promise<boolean> => (await statusOf(at, via(ip))) === 403;
  test.ok(await until(() => banned('2001:db8:7:7::1')), 'the address');
  test.ok(await banned('2001:db8:7:7:8:9:a:b'), 'its whole /64');
  test.notOk(await banned('2001:db8:7:8::1'), 'and no more');
});

t.test('E03: forged forwarding headers, untrusted peer', async (test) => {
  const at = await bench(test, { trustedProxies: ['10.0.0.0/8'] });
  const forged: Pair[] = [
    ['X-Forwarded-For', '1.1.1.1'],
    ['X-Real-IP', '5.6.7.8'],
    ['Forwarded', 'for=1.1.1.1'],
    ['CF-Connecting-IP', '1.1.1.1'],
    ['True-Client-IP', '1.1.1.1'],
    ['X-Forwarded-Proto', 'https'],
    ['X-Forwarded-Host', 'evil.test'],
  ];
  test.equal(await statusOf(at, forged, '/forged'), 200, '(a) positive control: served');
  const event = await at.gate.event(({ path }) => path === '/forged');
  test.equal(event.client.ip, '127.0.0.1', '(a) the peer is the client');
  for (const [name, value] of forged) {
    const seen = at.up.last?.all(name) ?? [];
    test.notOk(
      seen.some((one) => one.includes(value)),
      `(a) ${name} is removed or overwritten`,
      { seen },
    );
  }
});

t.test('E03: lists from a trusted peer', async (test) => {
  const at = await bench(test, { trustedProxies: ['127.0.0.1', '10.0.0.0/8'] });
  const rows: readonly { name: string; headers: Pair[]; ip: string }[] = [
    { name: '(b) the last untrusted hop', headers: via('6.6.6.6, 203.0.113.9'), ip: '203.0.113.9' },
    { name: 'trusted hops are walked over', headers: via('203.0.113.9, 10.0.0.5'), ip: '203.0.113.9' },
    { name: '(c) IPv4 with a port', headers: via('203.0.113.9:5555'), ip: '203.0.113.9' },
    { name: '(c) IPv6 with a port', headers: via('[2001:db8::1]:443'), ip: '2001:db8::1' },
    { name: '(c) unknown', headers: via('unknown'), ip: '127.0.0.1' },
    { name: '(c) only commas', headers: via(',,'), ip: '127.0.0.1' },
    { name: '(d) all hops trusted', headers: via('10.2.3.4'), ip: '10.2.3.4' },
    { name: '(e) two lines', headers: [...via('6.6.6.6'), ...via('203.0.113.9')], ip: '203.0.113.9' },
    { name: 'mapped IPv6 is folded', headers: via('::ffff:203.0.113.8'), ip: '203.0.113.8' },
  ];
  for (const [n, { name, headers, ip }] of rows.entries()) {
    test.equal(await statusOf(at, headers, `/e03-${n}`), 200, `${name}: served`);
    const event = await at.gate.event(({ path }) => path === `/e03-${n}`);
    test.equal(event.client.ip, ip, name);
  }
  const long = await statusOf(at, via(many(700, (n) => `10.1.${n >> 8}.${n & 255}`).join(', ')), '/e03-long');
  test.ok([200, 400, 431].includes(long), '(c) a 10 KiB list: no crash', { long });
  test.equal(at.gate.exit, undefined, 'the gate runs on');
});

t.test('E03 (f): a PROXY header from an untrusted peer', async (test) => {
  const listen = [{ address: '127.0.0.1:0', proxyProtocol: true }];
  const untrusted = await bench(test, { listen, trustedProxies: ['10.0.0.0/8'] });
  const header = 'PROXY TCP4 203.0.113.7 127.0.0.1 4000 80\r\n';
  const refused = await exchange(untrusted.gate.port, Buffer.concat([Buffer.from(header), request()]), {
    timeoutMs: 2000,
  });
  test.not(refused.status, 200, 'refused', { got: refused.status });
  test.equal(untrusted.up.bytesReceived, 0, 'the origin saw no byte');
  const trusted = await bench(test, { listen, trustedProxies: ['127.0.0.1'] });
  const served = await exchange(
    trusted.gate.port,
    Buffer.concat([Buffer.from(header), request({ target: '/pp' })]),
  );
  test.equal(served.status, 200, 'control: served for a trusted peer');
  const event = await trusted.gate.event(({ path }) => path === '/pp');
  test.equal(event.client.ip, '203.0.113.7', 'control: the address in the header counts');
});

const DIRTY = [
  '# comment',
  '; another',
  '0.0.0.0/0',
  '10.0.0.0/8',
  '192.168.0.0/16',
  '224.0.0.0/3',
  '::/0',
  '127.0.0.1',
  '1.2.3',
  '1.2.3.4/33',
  '203.0.113.66',
  '203.0.113.66',
  '198.51.100.0/24',
  '2001:db8:9::/48',
  '',
].join('\r\n');

t.test('E04 and E08: dirty and half-written blocklists', async (test) => {
  const at = await bench(
    test,
    { trustedProxies: ['127.0.0.1'], reputation: { blocklist: 'block.txt', allowlist: 'allow.txt' } },
    { files: { 'block.txt': DIRTY, 'allow.txt': '198.51.100.9\n' } },
  );
  const is = async (ip: string, status: number, name: string): Promise<void> => {
    test.equal(await statusOf(at, via(ip)), status, `${name}: ${ip}`);
  };
  await is('203.0.113.66', 403, 'positive control');
  await is('198.51.100.1', 403, 'a network');
  await is('2001:db8:9::1', 403, 'an IPv6 network');
  await is('198.51.100.9', 200, 'the allowlist beats it');
  for (const ip of ['10.1.2.3', '192.168.1.1', '8.8.8.8', '2a00:1450::1', '1.2.3.4'])
    await is(ip, 200, 'over-wide or private');
  test.equal((await exchange(at.gate.port, request())).status, 200, 'loopback is never blocked');
  const replace = async (content: string): Promise<void> => {
    writeFileSync(join(at.gate.folder, 'new.txt'), content);
    renameSync(join(at.gate.folder, 'new.txt'), join(at.gate.folder, 'block.txt'));
    await sleep(1500);
  };
  await replace('');
  await is('203.0.113.66', 403, 'a 0-byte file keeps the old set');
  await replace('<!DOCTYPE html><html><body>502 Bad Gateway</body></html>');
  await is('203.0.113.66', 403, 'an HTML page keeps the old set');
  await replace(`${DIRTY}\r\n203.0.113.67\r\n`);
  let fresh = 0;
  for (let n = 0; n < 20 && fresh !== 403; n++, await sleep(250))
    fresh = await statusOf(at, via('203.0.113.67'));
  test.equal(fresh, 403, 'a good newer file is taken without a restart');
  test.ok(await until(() => at.gate.exit === undefined, 10), 'the gate runs on');
});

t.test('E08 (a): sources that are down or broken at start', async (test) => {
  const reputation = {
    tor: { url: 'http://127.0.0.1:1/details', timeout: '500ms' },
    blocklist: 'block.txt',
    asn: { database: 'asn.mmdb' },
  };
  const at = await bench(test, { reputation }, { files: { 'block.txt': '', 'asn.mmdb': 'not a database' } });
  test.equal(await statusOf(at, []), 200, 'the gate starts and serves');
  const ready = await at.gate.admin('/readyz');
  test.equal(ready.status, 200, 'readiness answers');
});
