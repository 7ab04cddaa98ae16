import t from 'tap';
import { eagerDetector, fakeBook, deliver, logins, observed, testEngine, BASE_MS } from './testing-engine.js';
import { createScreen, type Screen } from './screen.js';

const times = <T>(count: number, make: (at: number) => T): T[] =>
  Array.from({ length: count }, (_, at) => make(at));

t.test('who a detector finds is banned, with the evidence and in words', async (test) => {
  const { engine, book } = testEngine();
  await engine.open(0);
  deliver(engine, [...logins('192.0.2.1', 6), ...logins('192.0.2.2', 2)]);
  await engine.evaluate();
  test.same([...(await engine.settle())], [[0, 8]]);
  test.same([...book.bans.keys()], ['network:192.0.2.1']);
  test.match(book.asks[0], {
    mode: 'enforce',
    actor: 'detector:failedLogins',
    reason: '6 failed logins from 1 addresses',
    evidence: {
      detector: 'failedLogins',
      pattern: 'eager logins',
      count: 6,
      confidence: 0.9,
      firstSeenMs: BASE_MS,
      lastSeenMs: BASE_MS + 5_000,
      requestIds: { length: 3 },
    },
  });
  test.match(engine.stats(), {
    fates: { judged: 8 },
    acts: { outcomes: { made: 1 } },
    newestMs: BASE_MS + 5_000,
  });
});

t.test('the mode of the ask follows confidence and config', async (test) => {
  const cases = [
    { settings: { mode: 'enforce', banAt: 0.9 }, wanted: ['enforce'] },
    { settings: { mode: 'enforce', banAt: 0.91 }, wanted: ['watch'] },
    { settings: { mode: 'observe', banAt: 0.9 }, wanted: ['observe'] },
    { settings: { mode: 'observe', banAt: 0.91 }, wanted: [] },
  ] as const;
  for (const { settings, wanted } of cases) {
    const { engine, book } = testEngine({ listed: [{ settings, detector: eagerDetector() }] });
    await engine.open(0);
    deliver(engine, logins('192.0.2.1', 6));
    await engine.evaluate();
    await engine.settle();
    test.same(
      book.asks.map(({ mode }) => mode),
      wanted,
      JSON.stringify(settings),
    );
  }
});

t.test('parts of all partitions are judged together; an ask is not repeated at once', async (test) => {
  let now = BASE_MS;
  const { engine, book } = testEngine({ nowMs: () => now });
  await engine.open(0);
  await engine.open(1);
  deliver(engine, logins('192.0.2.1', 6), { partition: 0 });
  deliver(engine, logins('192.0.2.2', 6), { partition: 1 });
  await engine.evaluate();
  await engine.evaluate();
  await engine.settle();
  test.equal(book.asks.length, 2);
  now += 30_000;
  await engine.evaluate();
  await engine.settle();
  test.equal(book.asks.length, 4, 'an operator may have lifted it');
  test.equal(engine.stats().acts.outcomes.same, 2);
});

t.test('an hour that arrives in a moment is looked at slice by slice', async (test) => {
  const { engine, book } = testEngine({ nowMs: () => BASE_MS + 3_600_000 });
  await engine.open(0);
  const quiet = Array.from({ length: 60 }, (_, n) => observed({ n, at: 600_000 + n * 50_000 }));
  deliver(engine, [...logins('192.0.2.1', 30), ...quiet]);
  await engine.evaluate();
  await engine.settle();
  test.ok(book.bans.has('network:192.0.2.1'), 'though it left the window long before the end');
});

t.test('old findings, the allowlist and own addresses are told, once, not acted on', async (test) => {
  const late = testEngine({ nowMs: () => BASE_MS + 48 * 3_600_000 });
  const screen = createScreen({
    isAllowed: ({ family, prefix }) => family === 4 && prefix === 32,
    isOwn: () => false,
    widest: { ipv4: 16, ipv6: 32 },
  });
  const allowed = testEngine({ screen });
  for (const { engine } of [late, allowed]) {
    await engine.open(0);
    deliver(engine, logins('192.0.2.1', 6));
    await engine.evaluate();
    await engine.evaluate();
    await engine.settle();
  }
  test.same(late.book.asks, []);
  test.match(late.book.notes, [{ what: 'held-back', subject: 'eager logins', reason: /too old/ }]);
  test.equal(late.engine.stats().held.stale, 1);
  test.same(allowed.book.asks, []);
  test.match(allowed.book.notes, [{ subject: 'network:192.0.2.1', reason: /on the allowlist/ }]);
});

t.test('a verified crawler is left alone', async (test) => {
  const isBot: Screen['isCrawler'] = async (_, claims) => claims.some(({ ip }) => ip === '192.0.2.1');
  const screen = { refuses: () => undefined, claimOf: () => 'bot', isCrawler: isBot };
  const { engine, book } = testEngine({ screen });
  await engine.open(0);
  deliver(engine, logins('192.0.2.1', 6));
  await engine.evaluate();
  await engine.settle();
  test.same(book.asks, []);
  test.equal(engine.stats().acts.crawlers, 1);
});

t.test('bans that would touch too many good requests are held back with the numbers', async (test) => {
  const { engine, book } = testEngine();
  await engine.open(0);
  const addresses = Array.from({ length: 20 }, (_, n) => `192.0.2.${n}`);
  const good = addresses.flatMap((ip, a) =>
    Array.from({ length: 20 }, (_, n) => observed({ ip, n: a * 100 + n, at: n * 100, path: '/shop' })),
  );
  deliver(engine, [...good, ...addresses.flatMap((ip) => logins(ip, 6))]);
  await engine.evaluate();
  await engine.settle();
  test.same(book.asks, []);
  const told = /blast guard: this detection would touch [\d.]+ % .*earlier bans touched 0 %; with 20 bans/;
  test.match(book.notes, [{ reason: told }]);
  test.equal(engine.stats().held.blast, 20);
});

t.test('decoys that are banned first do not blind the guard to the attack behind them', async (test) => {
  let now = BASE_MS;
  const { engine, book } = testEngine({ nowMs: () => now });
  await engine.open(0);
  const addresses = (from: number): string[] => Array.from({ length: 20 }, (_, n) => `192.0.2.${from + n}`);
  const people = times(600, (n) => observed({ ip: `203.0.113.${n % 200}`, n, at: n * 100 }));
  // What they got is part of their pattern.
  const got = addresses(0).flatMap((ip, a) =>
    times(30, (n) => observed({ ip, n: 9_000 + a * 100 + n, at: n * 100, path: '/login' })),
  );
  deliver(engine, [...people, ...got, ...addresses(0).flatMap((ip) => logins(ip, 6))]);
  await engine.evaluate();
  await engine.settle();
  test.equal(book.bans.size, 20);
  now += 120_000;
  deliver(engine, addresses(100).flatMap((ip) => logins(ip, 6, 120_000)), { from: 5_000 });
  await engine.evaluate();
  await engine.settle();
  test.equal(book.bans.size, 40);
  test.same(book.notes, []);
  await engine.close();
});

t.test('a confidence counts and is shown to two digits, rounded down', async (test) => {
  const settings = { mode: 'enforce', banAt: 0.8 } as const;
  for (const [confidence, mode, shown] of [
    [0.7999, 'watch', 0.79],
    [0.7 + 0.1, 'enforce', 0.8],
    [0.85 + 1e-16, 'enforce', 0.85],
  ] as const) {
    const eager = eagerDetector();
    const detector = {
      ...eager,
      evaluate: (...given: Parameters<typeof eager.evaluate>) =>
        eager.evaluate(...given).map((one) => ({ ...one, confidence })),
    };
    const { engine, book } = testEngine({ listed: [{ settings, detector }] });
    await engine.open(0);
    deliver(engine, logins('192.0.2.1', 6));
    await engine.evaluate();
    await engine.settle();
    test.match(book.asks, [{ mode, evidence: { confidence: shown } }]);
  }
});

t.test('no more bans a minute than set; the others come in the next', async (test) => {
  let now = BASE_MS;
  const { engine, book } = testEngine({ config: { blast: { maxSuspects: 3 } }, nowMs: () => now });
  await engine.open(0);
  deliver(engine, Array.from({ length: 5 }, (_, n) => logins(`192.0.2.${n}`, 6)).flat());
  await engine.evaluate();
  await engine.settle();
  test.equal(book.bans.size, 3);
  now += 60_000;
  await engine.evaluate();
  await engine.settle();
  test.equal(book.bans.size, 5);
});

t.test('while the book is away nothing counts as read, and nothing is lost', async (test) => {
  const book = fakeBook();
  book.away = true;
  const { engine, logged } = testEngine({ book });
  await engine.open(0);
  deliver(engine, logins('192.0.2.1', 6));
  await engine.evaluate();
  await test.rejects(engine.settle(), { message: 'the book is away' });
  test.match(logged, [/book of bans cannot be asked/]);
  book.away = false;
  for (let tries = 0; tries < 100 && book.bans.size === 0; tries++)
    await new Promise((r) => setTimeout(r, 20));
  test.same([...(await engine.settle())], [[0, 6]]);
  test.ok(book.bans.has('network:192.0.2.1'));
  await engine.close();
});

t.test('a detector that throws is counted and told once; the others find what they find', async (test) => {
  const broken = {
    ...eagerDetector(),
    name: 'travel' as const,
    evaluate: () => {
      throw new Error('broken');
    },
  };
  const settings = { mode: 'enforce', banAt: 0.8 } as const;
  const { engine, book, logged } = testEngine({
    listed: [broken, eagerDetector()].map((detector) => ({ settings, detector })),
  });
  await engine.open(0);
  deliver(engine, logins('192.0.2.1', 6));
  await engine.evaluate();
  await engine.evaluate();
  await engine.settle();
  test.equal(book.bans.size, 1);
  test.equal(logged.length, 1);
  test.match(engine.stats().detectors, [
    { name: 'travel', failures: 2 },
    { name: 'failedLogins', entries: 1 },
  ]);
});

t.test('poison is counted by cause, its offset counts as read', async (test) => {
  const { engine } = testEngine();
  await engine.open(0);
  deliver(engine, ['not-json', 'version', 'shape', 'future', 'too-large', 'shape', observed()]);
  engine.take({ partition: 9, offset: 0, content: observed() });
  test.match(engine.stats(), { rejected: { shape: 2, 'not-json': 1 }, fates: { judged: 1 }, unowned: 1 });
  test.same([...(await engine.settle())], [[0, 7]]);
  engine.lost([0]);
  test.same([...(await engine.settle())], []);
});

t.test('the clock evaluates by itself what came in', async (test) => {
  const { engine, book } = testEngine({ config: { evaluateEvery: 100 } });
  await engine.open(0);
  engine.start();
  deliver(engine, logins('192.0.2.1', 6));
  for (let tries = 0; tries < 200 && book.bans.size === 0; tries++)
    await new Promise((r) => setTimeout(r, 25));
  test.equal(book.bans.size, 1);
  await engine.close();
});

t.test('a book that answers again is told once, after it was told to be away', async (test) => {
  const { engine, book, logged } = testEngine();
  await engine.open(0);
  book.away = true;
  deliver(engine, logins('192.0.2.1', 6));
  await engine.evaluate();
  await test.rejects(engine.settle(), { message: 'the book is away' });
  book.away = false;
  for (let wait = 0; wait < 1_000 && engine.isActing(); wait++)
    await new Promise((done) => setTimeout(done, 10));
  deliver(engine, logins('192.0.2.2', 6), { from: 6 });
  await engine.evaluate();
  await engine.settle();
  test.match(logged, [/cannot be asked/, /the book of bans answers again/]);
  test.equal(logged.length, 2);
});

t.test('many late events are told with the node whose clock is ahead', async (test) => {
  const { engine, logged } = testEngine();
  await engine.open(0);
  deliver(engine, [observed({ at: 3_600_000, node: 'fast' })]);
  deliver(engine, Array.from({ length: 150 }, (_, n) => observed({ at: n, n, node: 'right' })), { from: 1 });
  test.match(logged, [/100 events went unused .*late ones of right \(100\), the newest is of fast/]);
  test.equal(logged.length, 1);
});
