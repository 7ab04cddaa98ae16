import t from 'tap';
import { nearOf } from './near.js';
import { facts, only, setUp, type Sent } from './testing-limiter.js';

/** Sends `count` alike; what the last one's event would say. */
async function last(limits: object, count: number, sent: Sent = {}) {
  const { limiter } = setUp(limits);
  let request = facts(sent);
  for (let at = 0; at < count; at++) {
    request = facts(sent);
    await limiter.judge(request, undefined);
  }
  return nearOf(request);
}

t.test('the closest limit is told from 60 % on, while the request passes', async (test) => {
  const limits = only({ limit: '10/min' });
  test.equal(await last(limits, 5), undefined);
  test.same(await last(limits, 6), { policy: 'p', by: 'ip', used: 6, limit: 10, windowMs: 60_000 });
  test.equal((await last(limits, 10))?.used, 10);
  test.match(await last(limits, 14), { used: 11, limit: 10 }, 'over it, where refused');
});

t.test('of several limits the one used up most is told, alarms are no limits', async (test) => {
  const limits = only({ limit: '100/min', burstAlarm: '2/s' });
  test.equal(await last(limits, 3), undefined);
  const two = {
    policies: [
      ...only({ limit: '20/min' }).policies,
      { name: 'q', by: 'session', limit: '10/min' },
      { name: 'o', limit: '8/min', observe: true },
    ],
  };
  test.match(await last(two, 7, { ids: { session: 's' } }), { policy: 'o', used: 7, limit: 8 });
  const alone = { policies: two.policies.filter(({ name }) => name !== 'o') };
  test.match(await last(alone, 9, { ids: { session: 's' } }), { policy: 'q', by: 'session', used: 9 });
});

t.test('a bucket is measured by what it holds', async (test) => {
  for (const algorithm of ['token-bucket', 'leaky-bucket']) {
    const limits = only({ limit: '100/min', burst: 5, algorithm });
    test.equal(await last(limits, 2), undefined, algorithm);
    test.match(await last(limits, 4), { used: 4, limit: 5 }, algorithm);
  }
});
