import { existsSync, mkdtempSync, readFileSync, renameSync, rmSync } from 'node:fs';
import { spawn } from 'node:child_process';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import t from 'tap';
import { logSection } from './config.js';
import { createEventLog } from './log.js';
import type { Target } from './target.js';

const config = logSection.parse({});
const lines = (count: number, from = 0): string[] =>
  Array.from({ length: count }, (_, n) => JSON.stringify({ n: n + from, pad: 'x'.repeat(50) }));

/** A sink that takes what `room` allows and fails with `code` beyond it. */
function fakeTarget(
  room: () => number,
  code = 'ENOSPC',
): Target & { text: () => string; writes: () => number } {
  let text = '';
  let writes = 0;
  return {
    batchBytes: 4096,
    async write(bytes) {
      writes++;
      const take = Math.min(room() - text.length, bytes.length);
      if (take <= 0) throw Object.assign(new Error(`no: ${code}`), { code });
      text += bytes.subarray(0, take).toString();
      return take;
    },
    reopen() {},
    close: () => Promise.resolve(),
    text: () => text,
    writes: () => writes,
  };
}

t.test('lines and notes arrive in order in a file', async (test) => {
  const file = join(test.testdir(), 'a.log');
  const log = createEventLog(config, { file, nowMs: Date.now });
  for (const line of lines(5000)) log.line(line);
  log.note('warn', 'said', { code: 'X', level: 'forged' });
  test.equal(await log.close(), 0);
  const got = readFileSync(file, 'utf8').trim().split('\n');
  test.equal(got.length, 5001);
  test.same(got.slice(0, 5000), lines(5000));
  test.match(JSON.parse(got[5000]!), { level: 'warn', msg: 'said', code: 'X' });
});

t.test('a level below the configured one is not written', async (test) => {
  const file = join(test.testdir(), 'a.log');
  const log = createEventLog({ ...config, level: 'error' }, { file, nowMs: Date.now });
  log.note('info', 'no');
  log.note('error', 'yes');
  await log.close();
  test.equal(readFileSync(file, 'utf8').trim().split('\n').length, 1);
});

t.test(
  'a disk that is full in mid-line tears no line; losses are counted, reported and it resumes',
  async (test) => {
    let room = 1000;
    const target = fakeTarget(() => room);
    const said: string[] = [];
    let nowMs = 1_000_000;
    const log = createEventLog(config, {
      file: 'x',
      nowMs: () => nowMs,
      target,
      complain: (text) => said.push(text),
    });
    for (const line of lines(100)) log.line(line);
    await sleep(60);
    const before = target.writes();
    await sleep(500);
    test.ok(target.writes() - before <= 4, 'it does not spin');
    test.equal(said.length, 1);
    test.match(said[0], /[1-9]\d* lines lost/);
    room = 1e9;
    for (const line of lines(50, 1000)) log.line(line);
    nowMs += 61_000;
    await sleep(600);
    const lost = await log.close();
    const got = target
      .text()
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line) as { n: number });
    test.equal(got.length + lost, 150, 'every line is either there or counted');
    test.equal(got.at(-1)!.n, 1049, 'it resumes');
    test.equal(said.length, 2, 'and what was lost since is reported a minute later');
  },
);

t.test(
  'a full device loses lines, memory stays bounded, nothing throws',
  { skip: existsSync('/dev/full') ? false : 'this system has no /dev/full' },
  async (test) => {
    const said: string[] = [];
    const small = { ...config, queueEvents: 100 };
    const log = createEventLog(small, {
      file: '/dev/full',
      nowMs: Date.now,
      complain: (text) => said.push(text),
    });
    for (const line of lines(1000)) log.line(line);
    test.equal(log.dropped(), 900, 'beyond the bound lines are lost at once');
    await sleep(100);
    test.equal(log.dropped(), 1000);
    test.equal(said.length, 1, 'one report a minute');
    await log.close();
  },
);

t.test('a pipe that stays full is given up after a second and tried again', async (test) => {
  const target = fakeTarget(() => 0, 'EAGAIN');
  const log = createEventLog(config, { file: undefined, nowMs: Date.now, target, complain: () => undefined });
  for (const line of lines(3)) log.line(line);
  await sleep(1400);
  test.equal(log.dropped(), 3);
  test.ok(target.writes() < 40, 'it does not spin');
  await log.close();
});

t.test('a sink that never answers does not hold the close beyond its bound', async (test) => {
  const target: Target = {
    batchBytes: 10,
    write: () => new Promise(() => undefined),
    reopen() {},
    close: () => Promise.resolve(),
  };
  const log = createEventLog(config, { file: undefined, nowMs: Date.now, target });
  for (const line of lines(10)) log.line(line);
  await sleep(30);
  const from = Date.now();
  test.equal(await log.close(100), 9, 'what waited is counted');
  test.ok(Date.now() - from < 400);
  log.line('late');
  test.equal(log.dropped(), 10, 'after the close a line is lost, not kept');
});

t.test('rotation: a new file under the old name gets the next lines', async (test) => {
  const cases = [
    {
      name: 'renamed, noticed within seconds',
      rotate: (file: string) => renameSync(file, `${file}.1`),
      reopen: false,
    },
    { name: 'removed, noticed within seconds', rotate: (file: string) => rmSync(file), reopen: false },
    {
      name: 'renamed, told by a signal',
      rotate: (file: string) => renameSync(file, `${file}.1`),
      reopen: true,
    },
  ];
  for (const { name, rotate, reopen } of cases) {
    const file = join(mkdtempSync(join(tmpdir(), 'log-')), 'a.log');
    let nowMs = 1e6;
    const log = createEventLog(config, { file, nowMs: () => nowMs });
    log.line('{"n":1}');
    await sleep(60);
    rotate(file);
    if (reopen) log.reopen();
    else nowMs += 3000;
    log.line('{"n":2}');
    await log.close();
    test.equal(readFileSync(file, 'utf8'), '{"n":2}\n', name);
  }
});

t.test('a folder that is missing is reported and used once it exists', async (test) => {
  const said: string[] = [];
  const file = join(test.testdir(), 'none', 'a.log');
  const log = createEventLog(config, { file, nowMs: Date.now, complain: (text) => said.push(text) });
  log.line('{}');
  await sleep(100);
  test.match(said[0], /ENOENT/);
  await log.close();
});

const here = fileURLToPath(new URL('./', import.meta.url));
const CHILD = `
  import { createEventLog } from '${here}log.ts';
  import { logSection } from '${here}config.ts';
  const log = createEventLog(logSection.parse({}), { file: undefined, nowMs: Date.now });
  let beats = 0;
  const pulse = setInterval(() => beats++, 10);
  for (let n = 0; n < 9000; n++) log.line(JSON.stringify({ n, pid: process.pid, pad: 'y'.repeat(300) }));
  setTimeout(async () => {
    clearInterval(pulse);
    const lost = await log.close(+process.env.WAIT);
    process.send({ beats, lost });
    process.exit(0);
  }, 400);
`;

type Child = {
  text: () => string;
  done: Promise<{ beats: number; lost: number; code: number | null }>;
  stdout: NodeJS.ReadableStream;
};
function child(waitMs: number): Child {
  const args = ['--import', 'tsx', '--input-type=module', '-e', CHILD];
  const started = spawn(process.execPath, args, {
    env: { ...process.env, WAIT: String(waitMs) },
    stdio: ['ignore', 'pipe', 'inherit', 'ipc'],
  });
  let text = '';
  let report = { beats: 0, lost: -1 };
  started.on('message', (message) => (report = message as typeof report));
  started.stdout!.on('data', (chunk: Buffer) => (text += chunk.toString()));
  const done = new Promise<{ beats: number; lost: number; code: number | null }>((resolve) =>
    started.on('exit', (code) => resolve({ ...report, code })),
  );
  return { text: () => text, done, stdout: started.stdout! };
}

t.test('standard output: read, slowly read, and broken', async (test) => {
  const read = child(3000);
  const slow = child(300);
  slow.stdout.pause();
  const broken = child(300);
  (broken.stdout as unknown as { destroy(): void }).destroy();
  const [whole, stuck, dead] = await Promise.all([read.done, slow.done, broken.done]);
  await sleep(50);
  test.match(whole, { code: 0, lost: 0 });
  const got = read
    .text()
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line) as { n: number });
  test.equal(got.length, 9000, 'a living reader gets every line');
  test.match(stuck, { code: 0 }, 'a reader that stopped does not hold the process');
  test.ok(stuck.lost > 0 && stuck.beats > 10, 'losses are counted and the loop goes on', stuck);
  test.match(dead, { code: 0 }, 'a dead reader is no crash');
  test.ok(dead.lost > 0 && dead.beats > 10, 'and its losses are counted', dead);
});
