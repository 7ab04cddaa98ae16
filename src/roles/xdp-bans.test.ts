import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import t from 'tap';
import { parseConfig } from '../config/load.js';
import type { Ban } from '../controls/ban.js';
import { Fault } from '../core/errors.js';
import { banOf } from '../xdp/testing.js';
import { bansFile, openBanSource, readBanFile, readerOf } from './xdp-bans.js';

const SITES = 'sites: [{ name: a, hosts: ["*"], upstreams: ["http://127.0.0.1:9"] }]\n';
const config = (text: string) => parseConfig(SITES + text, '/etc/tidegate/gate.yaml');

const codeOf = (work: Promise<unknown>): Promise<string> =>
  work.then(
    () => 'none',
    (error: unknown) => (error instanceof Fault ? error.code : String(error)),
  );

t.test('the bans are where the gate keeps them, unless the config says otherwise', async (t) => {
  t.equal(bansFile(config('')), undefined);
  t.equal(bansFile(config('reputation: { stateDir: state }')), '/etc/tidegate/state/bans.jsonl');
  t.equal(bansFile(config('bans: { stateFile: b.jsonl }')), '/etc/tidegate/b.jsonl');
  const xdp = 'xdp: { interface: eth0, mode: driver, bans: /x.jsonl }';
  t.equal(bansFile(config(`bans: { stateFile: b.jsonl }\n${xdp}`)), '/x.jsonl');
  t.equal(await codeOf(openBanSource(config(''))), 'XDP_NO_BANS');
});

t.test('a file that is missing, damaged or cut off is an error, an empty one too', async (t) => {
  const folder = await mkdtemp(join(tmpdir(), 'tidegate-bans-'));
  t.teardown(() => rm(folder, { recursive: true, force: true }));
  const file = join(folder, 'bans.jsonl');
  t.equal(await codeOf(readBanFile(file)), 'XDP_BANS_UNREADABLE');
  await writeFile(file, '{"net":"192.0.2.1"}\n{"net":');
  t.equal(await codeOf(readBanFile(file)), 'XDP_BANS_UNREADABLE');
  await writeFile(file, '{"net":"192.0.2.1"}\n{"end":1}\n');
  t.equal((await readBanFile(file)).length, 1);
  for (const cut of ['', '{"net":"192.0.2.1"}\n']) {
    await writeFile(file, cut);
    t.equal(await codeOf(readBanFile(file)), 'XDP_BANS_UNREADABLE');
  }
  await writeFile(file, '{"end":0}\n');
  t.same(await readBanFile(file), []);
});

t.test(
  'a Redis that lost its book is not believed before the gates had a moment to put it back',
  async (t) => {
    const clock = { nowMs: 0 };
    const redis = { epoch: 'a', bans: [] as Ban[] };
    const readAll = async () => ({ nowMs: 0, version: 1, ledgerEpoch: '', ...redis });
    const read = readerOf({ readAll }, () => clock.nowMs);
    t.same(await read([]), []);
    redis.epoch = 'b';
    t.equal(await codeOf(read([])), 'XDP_BANS_UNREADABLE');
    clock.nowMs = 14_000;
    t.equal(await codeOf(read([])), 'XDP_BANS_UNREADABLE');
    clock.nowMs = 16_000;
    t.same(await read([]), []);
    clock.nowMs = 17_000;
    t.same(await read([]), [], 'and from then on');
  },
);

const redisOf = (epoch: string, bans: Ban[] = []) => {
  const book = { epoch, bans };
  return { book, readAll: async () => ({ nowMs: 0, version: 1, ledgerEpoch: '', ...book }) };
};

t.test('the first ban of a fresh Redis is no loss of its book', async (t) => {
  const redis = redisOf('');
  const read = readerOf(redis, () => 0);
  t.same(await read([]), []);
  redis.book.epoch = 'a';
  redis.book.bans = [banOf('192.0.2.1')];
  t.equal((await read([])).length, 1, 'taken at once');
});

t.test('started after Redis lost its book, it keeps what the kernel holds for a moment', async (t) => {
  const clock = { nowMs: 0 };
  const redis = redisOf('');
  const held = ['192.0.2.1', '192.0.2.2', '2001:db8:1:2::/64'];
  const read = readerOf(redis, () => clock.nowMs);
  t.equal(await codeOf(read(held)), 'XDP_BANS_UNREADABLE');
  redis.book.epoch = 'b';
  redis.book.bans = [banOf('192.0.2.1')];
  t.equal(await codeOf(read(held)), 'XDP_BANS_UNREADABLE', 'a part of it is back');
  redis.book.bans = [banOf('192.0.2.1'), banOf('2001:db8:1:2::9')];
  t.equal((await read(held)).length, 2, 'most of it is back');

  const other = readerOf(redisOf('c'), () => clock.nowMs);
  t.equal(await codeOf(other(held)), 'XDP_BANS_UNREADABLE');
  clock.nowMs = 16_000;
  t.same(await other(held), [], 'nobody put anything back: it is believed');
});
