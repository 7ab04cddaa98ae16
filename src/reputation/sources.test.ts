/** Case E08: sources that are down at start, half-written or replaced in place. */
import { copyFile, open, readFile, rename, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import t from 'tap';
import { reputationSection } from './config.js';
import { createReputation } from './reputation.js';
import { clientOf, DEMO, handClock, memoryLog, tempFolder, until } from './testing.js';

async function started(folder: string, section: object) {
  const memory = memoryLog();
  const clock = handClock(Date.now());
  const config = reputationSection.parse({ poll: '50ms', ...section });
  const engine = createReputation(config, { baseDir: folder, clock, log: memory.log, ownAddresses: [] });
  await engine.start();
  const ids = (ip: string): string =>
    engine
      .judge(clientOf(ip))
      .map((finding) => finding.id)
      .join();
  return { engine, ids, memory, clock };
}

t.test('exits are found by either kind of address, other relays are not', async (t) => {
  const { engine, ids } = await started(DEMO, { tor: { file: 'onionoo.json' } });
  const cases: [ip: string, wanted: string][] = [
    ['185.220.101.45', 'TOR-EXIT'],
    ['2001:db8:45::45', 'TOR-EXIT'],
    ['198.51.100.77', 'TOR-EXIT'],
    ['198.51.100.78', ''],
  ];
  for (const [ip, wanted] of cases) t.equal(ids(ip), wanted, ip);
  await engine.close();
});

t.test('the owner of an address is read, and hosting is known by number or word', async (t) => {
  const hosting = { asns: [64497], words: ['HOSTING'] };
  const { engine, ids } = await started(DEMO, { asn: { database: 'asn-sample.mmdb', hosting } });
  t.match(engine.asn('192.0.2.1'), { number: Number, organization: 'Example Hosting Ltd' });
  t.match(engine.judge(clientOf('192.0.2.1')), [{ points: 55, message: /AS\d+, Example Hosting Ltd/ }]);
  t.equal(ids('2001:db8:1::7'), 'HOSTING-ASN');
  t.equal(ids('203.0.113.1'), '');
  for (const odd of ['', 'x', '999.1.1.1', '::', '1.2.3.4.5']) t.equal(engine.asn(odd), undefined, odd);
  await engine.close();
});

t.test('down at start: the saved copy holds, and without one nobody is judged', async (t) => {
  const folder = await tempFolder(t);
  await writeFile(join(folder, 'block.txt'), '203.0.113.66\n');
  await copyFile(join(DEMO, 'asn-sample.mmdb'), join(folder, 'asn.mmdb'));
  const section = { blocklist: 'block.txt', asn: { database: 'asn.mmdb' } };

  const before = await started(folder, { ...section, stateDir: 'state' });
  await before.engine.close();
  await rm(join(folder, 'block.txt'));
  await rm(join(folder, 'asn.mmdb'));

  const saved = await started(folder, { ...section, stateDir: 'state' });
  t.equal(saved.ids('203.0.113.66'), 'BLOCKLIST');
  t.equal(saved.ids('192.0.2.1'), 'HOSTING-ASN');
  saved.clock.at += 60_000;
  const [status] = saved.engine.status();
  t.match(status, { ok: false, entries: 1, problem: /cannot load blocklist/ }, 'visible in the status');
  t.ok((status?.ageMs ?? 0) >= 60_000, 'with its true age');
  await saved.engine.close();

  const neutral = await started(folder, section);
  t.equal(neutral.ids('203.0.113.66'), '');
  t.match(neutral.engine.status(), [
    { ok: false, ageMs: -1 },
    { ok: false, ageMs: -1 },
  ]);
  await writeFile(join(folder, 'block.txt'), '203.0.113.66\n');
  t.ok(await until(() => neutral.ids('203.0.113.66') === 'BLOCKLIST'), 'it is taken up when it appears');
  await neutral.engine.close();
});

function withNewName(database: Buffer): Buffer {
  const text = database.toString('latin1').replaceAll('Example Hosting Ltd', 'Changed Hosting Ltd');
  return Buffer.from(text, 'latin1');
}

function isNew(engine: { asn(ip: string): { organization: string } | undefined }): boolean {
  return engine.asn('192.0.2.1')?.organization === 'Changed Hosting Ltd';
}

t.test('a database damaged in place is not used; the next good one is', async (t) => {
  const good = await readFile(join(DEMO, 'asn-sample.mmdb'));
  const renamed = withNewName(good);
  const cases: [name: string, damage: (path: string) => Promise<void>][] = [
    ['0 bytes', (path) => writeFile(path, '')],
    ['cut in half', (path) => writeFile(path, good.subarray(0, good.length / 2))],
    ['cut at its end', (path) => writeFile(path, good.subarray(0, good.length - 20))],
    ['its front missing', (path) => writeFile(path, good.subarray(5000))],
    ['no database', (path) => writeFile(path, 'x'.repeat(10_000))],
    ['deleted', (path) => rm(path)],
  ];
  for (const [name, damage] of cases) {
    const folder = await tempFolder(t);
    const path = join(folder, 'asn.mmdb');
    await writeFile(path, good);
    const { engine } = await started(folder, { asn: { database: 'asn.mmdb' } });
    await damage(path);
    t.ok(await until(() => engine.status()[0]?.ok === false), `${name}: noticed`);
    t.equal(engine.asn('192.0.2.1')?.organization, 'Example Hosting Ltd', `${name}: the old one answers`);
    await writeFile(`${path}.new`, renamed);
    await rename(`${path}.new`, path);
    t.ok(await until(() => isNew(engine)), `${name}: the new one answers`);
    await engine.close();
  }
});

t.test('a database overwritten over two seconds never harms a look-up', async (t) => {
  const folder = await tempFolder(t);
  const path = join(folder, 'asn.mmdb');
  const good = await readFile(join(DEMO, 'asn-sample.mmdb'));
  const renamed = withNewName(good);
  await writeFile(path, good);
  const { engine, ids } = await started(folder, { asn: { database: 'asn.mmdb' } });
  let wrong = 0;
  let lookups = 0;
  const reader = setInterval(() => {
    for (let n = 0; n < 10; n++, lookups++) if (ids(`192.0.2.${lookups & 255}`) !== 'HOSTING-ASN') wrong++;
  }, 5);
  const file = await open(path, 'w');
  const part = Math.ceil(renamed.length / 20);
  for (let at = 0; at < renamed.length; at += part) {
    await file.write(renamed.subarray(at, at + part));
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
  await file.close();
  t.ok(await until(() => isNew(engine)), 'the new one answers in the end');
  clearInterval(reader);
  t.equal(wrong, 0, `of ${lookups} look-ups`);
  await engine.close();
});
