/** Case E04: what dirty lists may do. */
import { truncate, writeFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import type { RequestListener } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import t from 'tap';
import { reputationSection } from './config.js';
import { createReputation } from './reputation.js';
import { clientOf, handClock, longestStall, memoryLog, tempFolder, until } from './testing.js';

const nth = (n: number): string => `198.${n >> 16}.${(n >> 8) & 255}.${n & 255}\n`;
const first = (count: number): string => Array.from({ length: count }, (_, n) => nth(n)).join('');

async function engineOf(folder: string, section: object) {
  const config = reputationSection.parse({ poll: '50ms', ...section });
  const memory = memoryLog();
  const ownAddresses = ['203.0.113.5', '2001:db8:5::5'];
  const deps = { baseDir: folder, clock: handClock(), log: memory.log, ownAddresses };
  const engine = createReputation(config, deps);
  const verdict = (ip: string): string =>
    engine
      .judge(clientOf(ip))
      .map((finding) => finding.kind)
      .join();
  return { engine, verdict, memory };
}

t.test('a dirty blocklist blocks what it may and skips the rest with a warning', async (t) => {
  const folder = await tempFolder(t);
  await writeFile(join(folder, 'allow.txt'), '203.0.114.0/24 # partner\n');
  const lines = [
    '# comment',
    '; comment',
    '',
    '0.0.0.0/0',
    '10.0.0.0/8',
    '192.168.0.0/16',
    '224.0.0.0/3',
    '::/0',
    '127.0.0.1',
    '::1',
    '203.0.113.5',
    '2001:db8:5::6',
    '203.0.114.7',
    '1.2.3',
    '1.2.3.4/33',
    '1.2.3.4-1.2.3.9',
    '128.0.0.0/7',
    '203.0.113.66 # bad',
    '203.0.113.66',
    '198.51.100.0/24 ; worse',
    '2001:db8:1:2::9',
  ];
  await writeFile(join(folder, 'block.txt'), lines.join('\r\n'));
  const section = { allowlist: 'allow.txt', blocklist: 'block.txt' };
  const { engine, verdict, memory } = await engineOf(folder, section);
  await engine.start();
  const cases: [ip: string, wanted: string][] = [
    ['203.0.113.66', 'deny'],
    ['198.51.100.200', 'deny'],
    ['2001:db8:1:2::9', 'deny'],
    ['10.1.1.1', ''],
    ['192.168.1.1', ''],
    ['127.0.0.1', ''],
    ['::1', ''],
    ['8.8.8.8', ''],
    ['1.2.3.4', ''],
    ['128.1.1.1', ''],
    ['203.0.113.5', ''],
    ['2001:db8:5::5', ''],
    ['203.0.114.7', 'allow'],
  ];
  for (const [ip, wanted] of cases) t.equal(verdict(ip), wanted, ip);
  t.match(engine.status()[1], { feed: 'blocklist', entries: 3, ok: true });
  t.match(memory.text(), /3 bad line\(s\), 11 skipped/);
  t.equal(memory.lines.length, 1, 'reported once');
  await engine.close();
});

t.test('E01 d: a block on one IPv6 address covers its /64 and no more', async (t) => {
  const folder = await tempFolder(t);
  await writeFile(join(folder, 'block.txt'), '2001:db8:1:2::9\n2001:db8:9::/48\n::ffff:203.0.113.7\n');
  const { engine, verdict } = await engineOf(folder, { blocklist: 'block.txt' });
  await engine.start();
  const cases: [string, string][] = [
    ['2001:db8:1:2:ffff::1', 'deny'],
    ['2001:db8:1:3::9', ''],
    ['2001:db8:9:77::1', 'deny'],
    ['203.0.113.7', 'deny'],
  ];
  for (const [ip, wanted] of cases) t.equal(verdict(ip), wanted, ip);
  await engine.close();
});

t.test('a version that cannot be right is refused and the old one kept', async (t) => {
  const cases: [name: string, text: string, problem: RegExp][] = [
    ['0 bytes', '', /empty/],
    ['an HTML page', '<!doctype html>\n<p>198.0.0.1</p>\n', /HTML/],
    ['only bad lines', 'not\na list\n', /none of its lines/],
    ['fifty times larger', first(10_000), /10000 entries after 200/],
    ['twenty times smaller', first(10), /only 10 entries after 200/],
  ];
  for (const [name, text, problem] of cases) {
    const folder = await tempFolder(t);
    const path = join(folder, 'block.txt');
    await writeFile(path, first(200));
    const { engine, verdict } = await engineOf(folder, { blocklist: 'block.txt' });
    await engine.start();
    await writeFile(path, text);
    t.ok(await until(() => engine.status()[0]?.ok === false), `${name}: noticed`);
    t.match(engine.status()[0]?.problem, problem, name);
    t.equal(verdict('198.0.0.199'), 'deny', `${name}: the old list holds`);
    await writeFile(path, first(300));
    t.ok(await until(() => verdict('198.0.0.250') === 'deny'), `${name}: a good version is taken up again`);
    t.equal(engine.status()[0]?.ok, true);
    await engine.close();
  }
});

t.test('an empty allowlist is an empty list at start; one that becomes empty is not believed', async (t) => {
  const folder = await tempFolder(t);
  const path = join(folder, 'allow.txt');
  await writeFile(path, '');
  const { engine, verdict } = await engineOf(folder, { allowlist: 'allow.txt' });
  await engine.start();
  t.match(engine.status()[0], { ok: true, entries: 0 });
  await writeFile(path, '198.0.0.7\n');
  t.ok(await until(() => verdict('198.0.0.7') === 'allow'));
  await writeFile(path, '');
  t.ok(await until(() => engine.status()[0]?.ok === false), 'noticed');
  t.equal(verdict('198.0.0.7'), 'allow', 'the last copy stays');
  await writeFile(path, '# nobody\n');
  t.ok(await until(() => verdict('198.0.0.7') === ''), 'emptied on purpose');
  await engine.close();
});

t.test('an oversize file is refused without being read whole', async (t) => {
  const folder = await tempFolder(t);
  const path = join(folder, 'block.txt');
  await writeFile(path, '203.0.113.1\n');
  await truncate(path, 300 * 1024 * 1024);
  const { engine } = await engineOf(folder, { blocklist: 'block.txt' });
  const stall = await longestStall(() => engine.start());
  t.match(engine.status()[0]?.problem, /larger than 32 MB/);
  t.comment(`longest stall ${stall.toFixed(1)} ms`);
  await engine.close();
});

t.test('loading 200 000 entries leaves the event loop free', async (t) => {
  const folder = await tempFolder(t);
  await writeFile(join(folder, 'block.txt'), first(200_000));
  const stalls: number[] = [];
  for (let turn = 0; turn < 5; turn++) {
    const { engine, verdict } = await engineOf(folder, { blocklist: 'block.txt' });
    stalls.push(await longestStall(() => engine.start()));
    t.equal(verdict('198.3.13.63'), 'deny');
    await engine.close();
  }
  // The promise is 20 ms. A busy machine stops any of the loads; a load that blocks, blocks each time.
  const least = Math.min(...stalls);
  t.comment(`longest stall ${least.toFixed(1)} ms`);
  t.ok(least < 60, `longest stall ${least.toFixed(1)} ms`);
});

async function origin(t: { teardown(work: () => void): void }, answer: RequestListener): Promise<string> {
  const server = createServer(answer);
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  t.teardown(() => {
    server.closeAllConnections();
    server.close();
  });
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}/details`;
}

const relays = (ip: string): string => JSON.stringify({ relays: [{ exit_addresses: [ip] }] });

t.test('a Tor source that fails keeps its last good copy', async (t) => {
  const cases: [name: string, answer: RequestListener, problem: RegExp][] = [
    ['status 503', (_q, a) => a.writeHead(503).end(), /status 503/],
    ['HTML with 200', (_q, a) => a.end('<html></html>'), /HTML/],
    ['nothing with 200', (_q, a) => a.end(), /empty/],
    ['a cut document', (_q, a) => a.end(relays('198.51.100.9').slice(0, -3)), /cut off/],
    ['another document', (_q, a) => a.end('[1]'), /not an Onionoo/],
    ['no relays', (_q, a) => a.end('{"relays":[]}'), /names no exit/],
    ['a fetch that hangs', () => undefined, /abort|timeout/i],
    ['too much', (_q, a) => a.end(Buffer.alloc(33 * 1024 * 1024, 32)), /larger than 32 MB/],
  ];
  for (const [name, answer, problem] of cases) {
    let bad = false;
    const url = await origin(t, (q, a) => (bad ? answer(q, a) : a.end(relays('198.51.100.9'))));
    const timeout = name === 'a fetch that hangs' ? '400ms' : '3s';
    const section = { tor: { url, refresh: '1s', timeout } };
    const { engine, verdict } = await engineOf(await tempFolder(t), section);
    await engine.start();
    t.equal(verdict('198.51.100.9'), 'note', name);
    bad = true;
    t.ok(await until(() => engine.status()[0]?.ok === false), `${name}: noticed`);
    t.match(engine.status()[0]?.problem, problem, name);
    t.equal(verdict('198.51.100.9'), 'note', `${name}: the old copy holds`);
    await engine.close();
  }
});
