import t from 'tap';
import { reputationSection } from '../reputation/config.js';
import type { FeedStatus } from '../reputation/source.js';
import { feedViews } from './feed-view.js';

const config = reputationSection.parse({ blocklist: 'block.txt', tor: { file: 'tor.json' } });
const now = { wallMs: Date.parse('2026-01-01T00:10:00Z'), steadyMs: 50_000 };
const told = (atMs: number, ...statuses: Partial<FeedStatus>[]) => ({
  feeds: {
    atMs,
    statuses: statuses.map((status) => ({
      feed: 'blocklist' as const,
      entries: 3,
      ageMs: 1_000,
      ok: true,
      problem: undefined,
      ...status,
    })),
  },
});

t.test('every configured feed is shown, before any worker spoke and before any load', (test) => {
  for (const states of [[], [{ feeds: undefined }], [told(50_000, { ageMs: -1, ok: false, entries: 0 })]]) {
    const views = feedViews(config, states, now);
    test.strictSame(
      views.map(({ feed, state, ageSeconds, lastSuccess }) => [feed, state, ageSeconds, lastSuccess]),
      [
        ['blocklist', 'waiting', null, null],
        ['tor', 'waiting', null, null],
      ],
    );
  }
  test.strictSame(feedViews(reputationSection.parse({}), [], now), []);
  test.end();
});

t.test('a report ages while it waits, and the last success is a time', (test) => {
  const [blocklist] = feedViews(config, [told(20_000, {})], now);
  test.strictSame(blocklist, {
    feed: 'blocklist',
    state: 'ok',
    entries: 3,
    lastSuccess: '2026-01-01T00:09:29.000Z',
    ageSeconds: 31,
    lastError: null,
  });
  test.end();
});

t.test('the worst worker speaks', (test) => {
  const fine = told(50_000, {});
  const failing = told(50_000, { ageMs: 90_000, ok: false, problem: 'no such file', entries: 2 });
  const never = told(50_000, { ageMs: -1, ok: false, problem: 'refused', entries: 0 });
  for (const states of [[fine, failing], [failing, fine]]) {
    const [view] = feedViews(config, states, now);
    test.match(view, { state: 'failing', ageSeconds: 90, lastError: 'no such file', entries: 2 });
  }
  for (const states of [[fine, never], [never, fine]]) {
    test.match(feedViews(config, states, now)[0], { state: 'waiting', lastError: 'refused', entries: 0 });
  }
  test.end();
});
