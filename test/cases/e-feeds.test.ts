/** E04 and E08 at run time: feeds that hang, break, explode, come back; databases replaced under traffic. */
import { copyFileSync, openSync, readFileSync, renameSync, rmSync, truncateSync, writeSync } from 'node:fs';
import { once } from 'node:events';
import { createServer, type ServerResponse } from 'node:http';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import t, { type Test } from 'tap';
import { bench, until, type Bench } from '../support/case.js';
import { ROOT } from '../support/gate.js';
import { pingsDuring, type Pings } from '../support/pings.js';
import { exchange, request } from '../support/raw-client.js';

const DATABASE = join(ROOT, 'deploy/demo/asn-sample.mmdb');
const EXIT = '203.0.113.44';

/** An Onionoo document of `count` exits, `EXIT` the first of them. */
function onionoo(count: number): Buffer {
  const relay = (n: number): string => {
    const address = n === 0 ? EXIT : `11.${n >> 16}.${(n >> 8) & 255}.${n & 255}`;
    return JSON.stringify({ nickname: `r${n}`, or_addresses: [`${address}:9001`], flags: ['Exit'] });
  };
  const relays = Array.from({ length: count }, (_, n) => relay(n)).join(',');
  return Buffer.from(`{"version":"8.0","relays":[${relays}]}`);
}

type Answer = (response: ServerResponse) => void;
const sends = (body: Buffer | string, status = 200): Answer => {
  return (response) => void response.writeHead(status).end(body);
};

async function feedServer(test: Test, first: Answer) {
  const feed = { answer: first, asked: 0, url: '' };
  const server = createServer((_request, response) => {
    feed.asked += 1;
    response.on('error', () => undefined);
    feed.answer(response);
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  test.teardown(() => {
    server.closeAllConnections();
    server.close();
  });
  const address = server.address();
  feed.url = `http://127.0.0.1:${typeof address === 'object' && address !== null ? address.port : 0}/`;
  return feed;
}

/** What stage 1 found about an address: ids and messages. */
let asked = 0;
async function foundOf({ gate }: Bench, ip: string): Promise<string> {
  const path = `/of/${asked++}`;
  const sent = request({ target: path, headers: [['X-Forwarded-For', ip]] });
  await exchange(gate.port, sent, { timeoutMs: 20_000 });
  const event = await gate.event((one) => one.path === path, 20_000);
  return event.steps[0]!.findings.map(({ id, message }) => `${id} ${message}`).join('; ');
}

const isExit = async (at: Bench): Promise<boolean> => (await foundOf(at, EXIT)).includes('TOR-EXIT');
const served = (test: Test, name: string, pings: Pings): void => {
  test.equal(pings.failed, 0, `${name}: everybody is served meanwhile`, pings);
  test.ok(pings.medianMs < 1000, `${name}: in time`, pings);
};

t.test('E04, E08 (b): a feed over HTTP that hangs, breaks, explodes, comes back', async (test) => {
  const good = onionoo(400);
  const feed = await feedServer(test, sends(good));
  const at = await bench(test, {
    trustedProxies: ['127.0.0.1'],
    reputation: { tor: { url: feed.url, refresh: '1s', timeout: '1500ms' } },
  });
  test.ok(await until(() => isExit(at), 10_000), 'positive control: an exit of the feed');
  const before = at.gate.workerMemoryMiB();
  const endless: Answer = (response) => {
    response.writeHead(200);
    const block = Buffer.alloc(1024 * 1024, '{"relays":[');
    let left = 300;
    const pump = (): void => {
      if (response.destroyed || left-- === 0) return void response.end();
      response.write(block, pump);
    };
    pump();
  };
  const rows: [name: string, answer: Answer, says: RegExp][] = [
    ['no answer at all', () => undefined, /FEED_UNREADABLE/],
    ['a head, then silence', (response) => void response.writeHead(200).write('{"relays":['), /timeout/i],
    ['cut off in the middle', (response) => {
      response.writeHead(200, { 'content-length': good.length });
      response.write(good.subarray(0, good.length / 2), () => response.destroy());
    }, /FEED_UNREADABLE/],
    ['cut off, and its length says so', sends(good.subarray(0, good.length / 2)), /cut off before its end/],
    ['status 503', sends('down', 503), /status 503/],
    ['an HTML page', sends('<!DOCTYPE html><p>Bad Gateway'), /HTML/],
    ['0 bytes', sends(''), /empty/],
    ['50 times as long', sends(onionoo(20_000)), /20000 entries after 400/],
    ['300 MB', endless, /larger than 32 MB|timeout/i],
  ];
  for (const [name, answer, says] of rows) {
    feed.answer = answer;
    const seen = at.gate.lines.length;
    const reported = () => at.gate.lines.slice(seen).some((line) => says.test(line));
    const pings = await pingsDuring(at.gate.port, () => until(reported, 10_000));
    test.ok(reported(), `${name}: refused and reported`);
    test.ok(await isExit(at), `${name}: the last good copy stays`);
    served(test, name, pings);
  }
  const grown = at.gate.workerMemoryMiB() - before;
  test.ok(grown < 150, 'memory stays bounded', { grown });
  // Not above the growth that is believed: 400 → 8,000 → 100,000.
  for (const count of [8_000, 100_000]) {
    feed.answer = sends(onionoo(count));
    const last = `11.${(count - 1) >> 16}.${((count - 1) >> 8) & 255}.${(count - 1) & 255}`;
    const fresh = async () => (await foundOf(at, last)).includes('TOR-EXIT');
    const pings = await pingsDuring(at.gate.port, () => until(fresh, 15_000));
    test.ok(await fresh(), `${count} entries are taken after all that`);
    served(test, `${count} entries`, pings);
  }
  test.equal(at.gate.exit, undefined, 'the gate runs on');
});

t.test('E04: a blocklist of 300 MB, and one that grows fiftyfold', async (test) => {
  const lines = Array.from({ length: 200 }, (_, n) => `203.0.113.${n}`);
  const at = await bench(
    test,
    { trustedProxies: ['127.0.0.1'], reputation: { blocklist: 'block.txt', poll: '200ms' } },
    { files: { 'block.txt': lines.join('\n') } },
  );
  const statusOf = async (ip: string): Promise<number> =>
    (await exchange(at.gate.port, request({ headers: [['X-Forwarded-For', ip]] }))).status;
  test.equal(await statusOf('203.0.113.5'), 403, 'positive control');
  const before = at.gate.workerMemoryMiB();
  const [draft, file] = [join(at.gate.folder, 'draft.txt'), join(at.gate.folder, 'block.txt')];
  const grownList = Array.from({ length: 10_000 }, (_, n) => `12.0.${n >> 8}.${n & 255}`).join('\n');
  for (const [name, content, size, says] of [
    ['300 MB', '198.51.100.1\n', 300 * 1024 * 1024, /larger than 32 MB/],
    ['fiftyfold', grownList, grownList.length, /10000 entries after 200/],
  ] as const) {
    writeSync(openSync(draft, 'w'), content);
    truncateSync(draft, size);
    const seen = at.gate.lines.length;
    renameSync(draft, file);
    const reported = () => at.gate.lines.slice(seen).some((line) => says.test(line));
    const pings = await pingsDuring(at.gate.port, () => until(reported, 15_000));
    test.ok(reported(), `${name}: refused and reported`);
    test.equal(await statusOf('203.0.113.5'), 403, `${name}: the old set stays`);
    test.equal(await statusOf('198.51.100.1'), 200, `${name}: nothing of the new one is used`);
    served(test, name, pings);
  }
  const grown = at.gate.workerMemoryMiB() - before;
  test.ok(grown < 100, 'memory stays bounded', { grown });
});

t.test('E08 (c): a database replaced badly and well, under traffic', async (test) => {
  const at = await bench(
    test,
    { trustedProxies: ['127.0.0.1'], reputation: { asn: { database: 'asn.mmdb' }, poll: '200ms' } },
    { files: { 'asn.mmdb': readFileSync(DATABASE) } },
  );
  const file = join(at.gate.folder, 'asn.mmdb');
  const good = readFileSync(DATABASE);
  const text = good.toString('latin1').replaceAll('Example Hosting', 'Changed Hosting');
  const renamed = Buffer.from(text, 'latin1');
  const owner = () => foundOf(at, '192.0.2.1');
  test.match(await owner(), /Example Hosting/, 'positive control');
  const overwrite = async (content: Buffer): Promise<void> => {
    const handle = openSync(file, 'w');
    for (let from = 0; from < content.length; from += 12_000) {
      writeSync(handle, content.subarray(from, from + 12_000));
      await sleep(150);
    }
  };
  const steps: [name: string, change: () => Promise<void> | void][] = [
    ['0 bytes', () => truncateSync(file, 0)],
    ['half', () => at.gate.write('asn.mmdb', good.subarray(0, good.length / 2))],
    ['deleted', () => rmSync(file)],
    ['no database', () => at.gate.write('asn.mmdb', 'x'.repeat(20_000))],
  ];
  for (const [name, change] of steps) {
    const pings = await pingsDuring(at.gate.port, async () => {
      await change();
      await sleep(900);
    });
    test.match(await owner(), /Example Hosting/, `${name}: the old one answers`);
    served(test, name, pings);
  }
  const slow = await pingsDuring(at.gate.port, () => overwrite(renamed));
  served(test, 'overwritten in place', slow);
  const changed = async () => (await owner()).includes('Changed Hosting');
  test.ok(await until(changed, 10_000), 'a valid newer one is taken in the end');
  copyFileSync(DATABASE, `${file}.new`);
  renameSync(`${file}.new`, file);
  test.ok(await until(async () => (await owner()).includes('Example Hosting'), 10_000), 'and the next by rename');
  test.equal(at.gate.exit, undefined, 'the gate runs on');
  test.notOk(at.gate.lines.some((line) => line.includes('"level":"error"')), 'no error in a request');
});
