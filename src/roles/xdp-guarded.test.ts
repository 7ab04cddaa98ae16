import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import t, { type Test } from 'tap';
import { parseConfig } from '../config/load.js';
import { Fault } from '../core/errors.js';
import { createRangeSet, rangeOf } from '../xdp/ranges.js';
import { parseNetwork } from '../core/address.js';
import { createGuardedReader, neighboursOf } from './xdp-guarded.js';

const HEAD =
  'sites: [{ name: a, hosts: ["*"], upstreams: ["http://origin.test:8080", "http://[2001:db8::9]"] }]\n';
const XDP = 'xdp: { interface: eth0, mode: driver, management: ["192.0.2.128/25"] }\n';

async function bench(t: Test, text: string, find: (host: string) => Promise<string[]> = async () => []) {
  const folder = await mkdtemp(join(tmpdir(), 'tidegate-guarded-'));
  t.teardown(() => rm(folder, { recursive: true, force: true }));
  await writeFile(join(folder, 'allow.txt'), '198.51.100.0/24 # partners\n0.0.0.0/0\n');
  const config = parseConfig(HEAD + XDP + text, join(folder, 'gate.yaml'));
  const lines: string[] = [];
  const read = createGuardedReader(config, {
    log: (level, message, fields) => void lines.push(`${level} ${message} ${JSON.stringify(fields)}`),
    find,
    routers: async () => [
      { net: '192.0.2.65', why: 'gateway', spared: false },
      { net: '192.0.2.66', why: 'resolver', spared: true },
    ],
  });
  const whyNot = async (net: string): Promise<string | undefined> => {
    const all = await read();
    return createRangeSet(all.map((one) => [one.net, one.why] as const)).touching(
      rangeOf(parseNetwork(net)!),
    );
  };
  const spared = async (): Promise<string[]> =>
    (await read()).filter((one) => one.spared).map(({ net }) => net);
  return { config, read, lines, whyNot, spared, folder };
}

t.test('everybody who must not be banned is known, with the reason', async (t) => {
  const { whyNot, spared } = await bench(
    t,
    'reputation: { allowlist: allow.txt, ownAddresses: ["203.0.113.5"] }\ntrustedProxies: ["10.9.0.0/16", "::/0"]\n',
    async (host) => (host === 'origin.test' ? ['192.0.2.7', '2001:db8::7'] : [host]),
  );
  const cases: [net: string, why: string | undefined][] = [
    ['198.51.100.77', 'allowlist'],
    ['203.0.113.5', 'own'],
    ['192.0.2.200', 'management'],
    ['10.9.8.7', 'trusted'],
    ['192.0.2.7', 'neighbour'],
    ['2001:db8::9', 'neighbour'],
    ['192.0.2.65', 'gateway'],
    ['192.0.2.66', 'resolver'],
    ['127.0.0.1', 'special'],
    ['224.0.0.5', 'special'],
    ['fe80::1', 'special'],
    ['192.0.2.8', undefined],
    ['2001:db8:1::1', undefined],
  ];
  for (const [net, why] of cases) t.equal(await whyNot(net), why, `${net}: ${why}`);
  t.same(
    (await spared()).sort(),
    ['10.9.0.0/16', '192.0.2.66', '192.0.2.7', '198.51.100.0/24', '2001:db8::7', '2001:db8::9'].sort(),
    'caps spare the welcome, the proxies, the servers behind and the resolvers',
  );
});

t.test('a name that cannot be found keeps the addresses known before, and is told once', async (t) => {
  let isDown = false;
  const { spared, lines } = await bench(t, '', async (host) => {
    if (isDown) throw new Error('no answer');
    return host === 'origin.test' ? ['192.0.2.7'] : [host];
  });
  t.ok((await spared()).includes('192.0.2.7'));
  isDown = true;
  t.ok((await spared()).includes('192.0.2.7'));
  await spared();
  t.equal(lines.length, 2, 'one line for each host');
});

t.test('an allowlist that cannot be read is an error, never an empty list', async (t) => {
  const { read, folder } = await bench(t, 'reputation: { allowlist: allow.txt }\n');
  await rm(join(folder, 'allow.txt'));
  await t.rejects(read(), Fault);
});

t.test('the last good allowlist stays where a new one is lost, empty or suddenly small', async (t) => {
  const { whyNot, folder, lines } = await bench(t, 'reputation: { allowlist: allow.txt }\n');
  const file = join(folder, 'allow.txt');
  const told = (): string[] => lines.filter((line) => line.includes('last good one'));
  t.equal(await whyNot('198.51.100.77'), 'allowlist');
  for (const spoil of [
    () => rm(file),
    () => writeFile(file, ''),
    () => writeFile(file, '<html>'),
    () => writeFile(file, 'not\na list\n'),
  ]) {
    const before = told().length;
    await spoil();
    for (let round = 0; round < 3; round++) t.equal(await whyNot('198.51.100.77'), 'allowlist');
    t.equal(told().length, before + 1, 'told once');
  }
  await writeFile(file, '# nobody any more\n');
  t.equal(await whyNot('198.51.100.77'), undefined, 'emptied on purpose, with a comment');
});

t.test('an allowlist that is empty from the start is an empty list with a warning', async (t) => {
  const { whyNot, folder, lines } = await bench(t, 'reputation: { allowlist: allow.txt }\n');
  await writeFile(join(folder, 'allow.txt'), '');
  t.equal(await whyNot('198.51.100.77'), undefined);
  t.ok(lines.some((line) => line.startsWith('warn') && line.includes('the file is empty')));
});

t.test('servers behind are the origins, Redis and Kafka; the config may leave them out', async (t) => {
  const text =
    'redis: { url: "redis://:secret@cache.test:6379" }\nkafka: { brokers: ["[2001:db8::5]:9092", "bus.test:9092"] }\n';
  const { config } = await bench(t, text);
  t.same(neighboursOf(config), ['origin.test', '2001:db8::9', 'cache.test', '2001:db8::5', 'bus.test']);
  const off = parseConfig(HEAD + XDP.replace('mode:', 'neighbours: false, mode:'), '/gate.yaml');
  const read = createGuardedReader(off, { log: () => undefined, find: async () => ['192.0.2.7'] });
  t.notOk((await read()).some(({ why }) => why === 'neighbour'));
});
