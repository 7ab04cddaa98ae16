import t from 'tap';
import { createMemoryBook } from '../controls/memory-book.js';
import { bansSection } from '../controls/config.js';
import { correlatorSection } from './config.js';
import { createReplay } from './replay.js';
import { createScreen } from './screen.js';
import { BASE_MS, eagerDetector, logins, observed } from './testing-engine.js';

const rules = bansSection.parse({ base: '10m', factor: 2 });

function replay() {
  return createReplay({
    config: correlatorSection.parse({}),
    listed: [{ settings: { mode: 'enforce', banAt: 0.8 }, detector: eagerDetector() }],
    screen: createScreen({ isAllowed: () => false, isOwn: () => false, widest: { ipv4: 16, ipv6: 32 } }),
    log: () => undefined,
    openBook: (clock) => createMemoryBook({ clock, rules: () => rules }),
  });
}

t.test(
  'a day is told by its own time: when each ban would have begun and how long it would last',
  async (test) => {
    const day = replay();
    const hours = Array.from({ length: 24 * 60 }, (_, n) => observed({ n, at: n * 60_000 }));
    const events = [...hours, ...logins('192.0.2.1', 9, 600_000), ...logins('192.0.2.1', 9, 7_200_000)];
    events.sort((a, b) => a.timeMs - b.timeMs);
    for (const [offset, content] of events.entries()) await day.take({ partition: 0, offset, content });
    await day.take({ partition: 0, offset: events.length, content: 'not-json' });
    const report = await day.finish();
    test.match(report.bans, [
      { subject: { value: '192.0.2.1' }, strikes: 1, mode: 'enforce' },
      { subject: { value: '192.0.2.1' }, strikes: 2 },
    ]);
    const minutes = report.bans.map(({ sinceMs, untilMs }) =>
      [sinceMs - BASE_MS, untilMs - sinceMs].map((ms) => ms / 60_000),
    );
    test.ok(minutes[0]![0]! >= 10 && minutes[0]![0]! < 12, 'soon after it began');
    test.equal(minutes[0]![1], 10);
    test.ok(minutes[1]![0]! >= 120 && minutes[1]![0]! < 122);
    test.equal(minutes[1]![1], 20);
    test.match(report, {
      firstMs: BASE_MS,
      lastMs: BASE_MS + 1_439 * 60_000,
      stats: { rejected: { 'not-json': 1 } },
    });
  },
);

t.test('who was banned is refused as long as the ban lasts, and counts for nothing meanwhile', async (test) => {
  const day = replay();
  const people = Array.from({ length: 90 }, (_, n) => observed({ n, ip: '203.0.113.9', at: n * 20_000 }));
  // The ban lasts ten minutes; the attack goes on for twenty.
  const events = [...people, ...logins('192.0.2.1', 1_200, 60_000)].sort((a, b) => a.timeMs - b.timeMs);
  for (const [offset, content] of events.entries()) await day.take({ partition: 0, offset, content });
  const { bans, stats } = await day.finish();
  test.match(bans, [{ strikes: 1 }, { strikes: 2 }]);
  test.ok(bans[1]!.sinceMs >= bans[0]!.untilMs, 'again only after the first has ended');
  test.ok(stats.fates.banned > 1_000, `${stats.fates.banned}`);
  test.equal(stats.fates.judged + stats.fates.banned, events.length);
});

t.test('the same events, the same report', async (test) => {
  const events = [...logins('192.0.2.1', 30), ...logins('192.0.2.2', 30)];
  const told: string[] = [];
  for (let round = 0; round < 2; round++) {
    const one = replay();
    for (const [offset, content] of events.entries())
      await one.take({ partition: offset % 3, offset, content });
    told.push(JSON.stringify((await one.finish()).bans.map((ban) => ({ ...ban, id: '' }))));
  }
  test.equal(told[0], told[1]);
});
