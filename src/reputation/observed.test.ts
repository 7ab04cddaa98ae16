import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import fc from 'fast-check';
import t from 'tap';
import { channelPair } from '../core/channel.js';
import { reputationSection } from './config.js';
import { decayed } from './decay.js';
import { createObservedScores } from './observed.js';
import { createReputation } from './reputation.js';
import { findingsOf } from './score.js';
import { serveObserved } from './serve-observed.js';
import { clientOf, DEMO, handClock, memoryLog, tempFolder, until } from './testing.js';

const HOUR = 3_600_000;

t.test('a score halves each half-life and never rises by waiting', (t) => {
  t.equal(decayed(80, 24 * HOUR, 24 * HOUR), 40);
  t.equal(decayed(80, 48 * HOUR, 24 * HOUR), 20);
  t.equal(decayed(80, -5, 24 * HOUR), 80);
  const never = fc.property(fc.nat(100), fc.nat(1e9), fc.nat(1e9), (score, a, b) => {
    return decayed(score, a + b, HOUR) <= decayed(score, a, HOUR);
  });
  fc.assert(never);
  t.end();
});

t.test('scores add up, are capped, fade, and are evicted below 5', (t) => {
  const scores = createObservedScores({ halfLife: 24 * HOUR, evictBelow: 5, max: 1000 });
  scores.raise('a', 20, 0);
  scores.raise('a', 20, 24 * HOUR);
  t.equal(scores.score('a', 24 * HOUR), 30);
  for (let n = 0; n < 9; n++) scores.raise('b', 20, 0);
  t.equal(scores.score('b', 0), 100);
  t.equal(scores.score('unknown', 0), 0);
  t.equal(scores.score('a', 24 * HOUR * 4), 0, '3.75 is below 5');
  t.equal(scores.size, 2);
  t.equal(scores.sweep(24 * HOUR * 4), 1);
  t.equal(scores.score('b', 24 * HOUR * 4), 6.25);
  t.end();
});

t.test('a full map drops the lowest and counts them', (t) => {
  const scores = createObservedScores({ halfLife: 24 * HOUR, evictBelow: 5, max: 100 });
  for (let n = 0; n < 10; n++) scores.raise(`worst-${n}`, 90, 0);
  for (let n = 0; n < 10_000; n++) scores.raise(`flood-${n}`, 20, n);
  t.ok(scores.size <= 100, `${scores.size}`);
  t.equal(scores.dropped, 10_010 - scores.size);
  for (let n = 0; n < 10; n++) t.ok(scores.score(`worst-${n}`, 10_000) > 80, 'the highest stay');
  t.ok(scores.score('flood-9999', 10_000) > 0, 'the newest is in');
  t.end();
});

t.test('the strongest note carries the points, the others are included', (t) => {
  const note = (id: string, points: number) => ({ id, points, message: `${id}.` });
  const found = findingsOf([note('HOSTING-ASN', 55), note('TOR-EXIT', 70), note('OBSERVED', 20)]);
  t.match(found, [
    { id: 'TOR-EXIT', points: 70, message: 'TOR-EXIT.' },
    { id: 'HOSTING-ASN', points: 0, message: /55, included in the 70 of TOR-EXIT/ },
    { id: 'OBSERVED', points: 0, message: /20, included/ },
  ]);
  t.same(findingsOf([]), []);
  t.end();
});

t.test('a refusal raises the source, by /64 for IPv6, and never an allow-listed one', async (t) => {
  const config = reputationSection.parse({ allowlist: 'allow.txt' });
  const engine = createReputation(config, { baseDir: DEMO, clock: handClock(), log: memoryLog().log });
  await engine.start();
  engine.raise(clientOf('2001:db8:7:7::1'), 20);
  engine.raise(clientOf('203.0.113.10'), 100);
  t.match(engine.judge(clientOf('2001:db8:7:7:1:2:3:4')), [{ id: 'OBSERVED', points: 20, kind: 'note' }]);
  t.match(engine.judge(clientOf('203.0.113.10')), [{ id: 'ALLOWLIST', kind: 'allow' }]);
  t.match(engine.observed(), { entries: 1, dropped: 0 });
  t.same(engine.judge(clientOf('198.51.100.1')), []);
  await engine.close();
});

t.test('workers share scores, a late one catches up, and they survive a restart', async (t) => {
  const folder = await tempFolder(t);
  const config = reputationSection.parse({ observed: { stateFile: 'state/observed.jsonl' } });
  const { log, lines } = memoryLog();
  const clock = handClock();
  const deps = { baseDir: folder, clock, log };
  const server = serveObserved(config, deps);
  await server.start();
  const worker = async () => {
    const [up, down] = channelPair();
    server.attach(up);
    const engine = createReputation(config, { ...deps, channel: down });
    await engine.start();
    return engine;
  };
  const source = clientOf('198.51.100.1');
  const points = (engine: Awaited<ReturnType<typeof worker>>) => engine.judge(source)[0]?.points ?? 0;
  const one = await worker();
  const two = await worker();
  one.raise(clientOf('198.51.100.1'), 20);
  t.equal(points(one), 20, 'at once where it was raised');
  two.raise(clientOf('198.51.100.1'), 20);
  t.ok(await until(() => points(one) === 40 && points(two) === 40), 'soon everywhere, counted once each');
  const late = await worker();
  t.ok(await until(() => points(late) === 40), 'a late worker asks for all');
  for (const engine of [one, two, late]) await engine.close();
  await server.close();

  const again = serveObserved(config, deps);
  await again.start();
  clock.at += 24 * HOUR;
  t.equal(again.scores.score('198.51.100.1', clock.at), 20, 'fading went on meanwhile');
  await again.close();
  t.same(lines, []);
});

t.test('a state file that cannot be believed is a warning, and scores start empty', async (t) => {
  const folder = await tempFolder(t);
  const path = join(folder, 'observed.jsonl');
  const config = reputationSection.parse({ stateDir: '.' });
  const clock = handClock();
  const good = serveObserved(config, { baseDir: folder, clock, log: memoryLog().log });
  good.scores.raise('198.51.100.1', 50, clock.at);
  await good.close();
  const text = await readFile(path, 'utf8');
  const damaged = [text.slice(0, -4), text.replace('50', '"50"'), text.replace('v":1', 'v":9')];
  for (const bad of ['', '{', '\0\0\0\n', ...damaged]) {
    await writeFile(path, bad);
    const memory = memoryLog();
    const server = serveObserved(config, { baseDir: folder, clock, log: memory.log });
    await server.start();
    t.match(memory.text(), /STATE_UNREADABLE/, JSON.stringify(bad));
    t.equal(server.scores.size, 0);
    await server.close();
  }
});

t.test('messages of any shape on the line do no harm', async (t) => {
  const [up, down] = channelPair();
  const config = reputationSection.parse({});
  const deps = { baseDir: DEMO, clock: handClock(), log: memoryLog().log };
  const server = serveObserved(config, deps);
  server.attach(up);
  const engine = createReputation(config, { ...deps, channel: down });
  await engine.start();
  const odd = [
    null,
    1,
    'x',
    {},
    [],
    [1, 2, 3],
    ['k', NaN, 0],
    ['k', 1e9, 0],
    ['k'.repeat(99), 1, 0],
    [[null]],
  ];
  for (const body of odd) {
    down.send('reputation.raise', body);
    up.send('reputation.update', body);
  }
  await new Promise((resolve) => setImmediate(resolve));
  t.equal(server.scores.size, 0);
  t.equal(engine.observed().entries, 0);
  await engine.close();
  await server.close();
});
