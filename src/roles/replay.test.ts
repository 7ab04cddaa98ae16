import { createHash } from 'node:crypto';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { gzipSync } from 'node:zlib';
import t from 'tap';
import { configSchema, type Config } from '../config/schema.js';
import { split } from './replay-lines.js';
import { replayFile } from './replay.js';

const sites = [{ name: 'any', hosts: ['any.invalid'], upstreams: ['http://127.0.0.1:1'] }];
const config: Config = { ...configSchema.parse({ sites }), baseDir: '/' };
const ask = { config, log: () => undefined };

const event = (n: number, given: Record<string, unknown> = {}): string =>
  JSON.stringify({
    v: 1,
    time: new Date(Date.parse('2026-03-01T10:00:00Z') + n * 1_000).toISOString(),
    requestId: `r${n}`,
    node: 'a',
    worker: 1,
    site: 'shop',
    host: 'app.test',
    client: { ip: '203.0.113.1', key: '203.0.113.1' },
    method: 'GET',
    path: '/',
    status: 200,
    action: 'pass',
    reason: '',
    ruleIds: [],
    score: 0,
    steps: [],
    ...given,
  });

t.test('a log is read line by line: events, operational lines, poison with its place', async (test) => {
  const note = '{"level":"info","time":"2026-03-01T10:00:00.000Z","msg":"ready"}';
  const lines = [
    note,
    event(1),
    event(2),
    '{"v":1',
    event(3, { v: 9 }),
    '',
    event(4),
    `"${'x'.repeat(2 ** 20)}"`,
  ];
  const text = lines.join('\n');
  const folder = test.testdir({ 'a.log': text, 'a.log.gz': gzipSync(text) });
  for (const name of ['a.log', 'a.log.gz']) {
    const replayed = await replayFile({ ...ask, source: join(folder, name) });
    test.match(replayed, {
      lines: 8,
      notes: 1,
      outside: 0,
      bans: [],
      stats: { fates: { judged: 3 }, rejected: { 'not-json': 1, version: 1, 'too-large': 1 } },
      poison: [
        { line: 4, cause: 'not-json', text: '{"v":1' },
        { line: 5, cause: 'version' },
        { line: 8, cause: 'too-large' },
      ],
    });
  }
  const [fromMs, toMs] = ['10:00:02', '10:00:04'].map((time) => Date.parse(`2026-03-01T${time}Z`));
  const part = await replayFile({ ...ask, source: join(folder, 'a.log'), fromMs, toMs });
  test.match(part, { outside: 2, stats: { fates: { judged: 1 } } });
});

t.test('a file that is not there or not what its name says is a fault', async (test) => {
  const folder = test.testdir({ 'b.gz': 'no gzip' });
  for (const name of ['none.log', 'none.gz', 'b.gz'])
    await test.rejects(replayFile({ ...ask, source: join(folder, name) }), { code: 'REPLAY_UNREADABLE' });
});

t.test('lines do not depend on how the bytes come, and none is held without bound', async (test) => {
  const bytes = Buffer.from('ä1\r\n\nlonger line\nlast');
  const wanted = ['ä1', '', 'too-large', 'last'];
  for (const size of [1, 2, 3, 7, 100]) {
    const pieces: Buffer[] = [];
    for (let at = 0; at < bytes.length; at += size) pieces.push(bytes.subarray(at, at + size));
    const lines: string[] = [];
    for await (const line of split(Readable.from(pieces), 6)) lines.push(line);
    test.same(lines, wanted, `in pieces of ${size}`);
  }
});

t.test('of a damaged compressed log all that can be read is, and how far is told', async (test) => {
  const few = [1, 2, 3].map((n) => event(n)).join('\n');
  const noise = (n: number) => createHash('sha256').update(`${n}`).digest('hex').repeat(4);
  const many = Array.from({ length: 2_000 }, (_, n) => event(n, { path: `/${noise(n)}` })).join('\n');
  const whole = gzipSync(`${many}\n`);
  const damaged = Buffer.from(whole);
  damaged.fill(0xff, whole.length / 2, whole.length / 2 + 64);
  const folder = test.testdir({
    'garbage.gz': Buffer.concat([gzipSync(`${few}\n`), Buffer.from('garbage')]),
    'cut.gz': whole.subarray(0, whole.length - 20_000),
    'damaged.gz': damaged,
    'two.gz': Buffer.concat([gzipSync(`${few}\n`), gzipSync(event(4))]),
    'none.gz': 'not compressed at all',
    'empty.gz': whole.subarray(0, 5),
  });
  const read = (name: string) => replayFile({ ...ask, source: join(folder, name) });
  test.match(await read('garbage.gz'), { lines: 3, stats: { fates: { judged: 3 } }, cut: /after 3 lines/ });
  const cut = await read('cut.gz');
  test.ok(cut.lines > 1_000 && cut.lines < 2_000, `${cut.lines} lines`);
  test.match(cut.cut, /unexpected end of file at byte \d+, after \d+ lines/);
  test.match(cut.stats, { rejected: { 'not-json': 0 } }, 'half a line is not judged');
  const half = await read('damaged.gz');
  test.ok(half.lines > 500 && half.lines < 1_500 && half.cut !== undefined, `${half.lines} lines`);
  test.same((await read('two.gz')).lines, 4);
  test.equal((await read('two.gz')).cut, undefined);
  for (const name of ['none.gz', 'empty.gz'])
    await test.rejects(read(name), { code: 'REPLAY_UNREADABLE' }, name);
});
