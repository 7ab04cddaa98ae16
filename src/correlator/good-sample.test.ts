import t from 'tap';
import type { Saved } from './detector.js';
import { createGoodSample, joinSamples } from './good-sample.js';
import { BASE_MS, observed } from './testing-engine.js';

t.test(
  'only what was served well is kept, a bounded number a minute, for a quarter of an hour',
  async (test) => {
    const sample = createGoodSample();
    for (const bad of [
      { status: 404, upstreamStatus: 404 },
      { refusal: 'limit', status: 429, upstreamStatus: 0 },
      { status: 200, upstreamStatus: 0 },
    ] as const)
      sample.observe(observed(bad));
    test.equal(sample.size(), 0);
    for (let n = 0; n < 100_000; n++) sample.observe(observed({ n, at: n * 100 }));
    test.equal(sample.size(), 96 * 15);
    sample.observe(observed({ n: -1, at: 0 }));
    test.equal(sample.size(), 96 * 15, 'too old');
  },
);

t.test('the sample is the same whatever the order, and survives saving', async (test) => {
  const events = Array.from({ length: 3_000 }, (_, n) =>
    observed({ n, at: (n % 60) * 10_000, session: `s${n}` }),
  );
  const [forth, back] = [createGoodSample(), createGoodSample()];
  for (const event of events) forth.observe(event);
  for (const event of events.reverse()) back.observe(event);
  const byMinute = (saved: Saved): string => JSON.stringify([...(saved as Saved[])].sort());
  test.equal(byMinute(forth.save()), byMinute(back.save()));
  const again = createGoodSample(JSON.parse(JSON.stringify(forth.save())) as Saved);
  test.same(again.save(), forth.save());
  test.throws(() => createGoodSample([['x']]));
});

t.test('joined samples of uneven partitions are weighed as if all came from one', async (test) => {
  const [busy, quiet] = [createGoodSample(), createGoodSample()];
  for (let n = 0; n < 20_000; n++) busy.observe(observed({ n, at: n, site: 'busy' }));
  for (let n = 0; n < 2_000; n++)
    quiet.observe(observed({ n, at: n * 10, site: 'quiet', requestId: `q${n}` }));
  const joined = joinSamples([busy, quiet], BASE_MS + 60_000);
  const weightOf = (site: string): number =>
    joined.filter(({ request }) => request.site === site).reduce((sum, { weight }) => sum + weight, 0);
  const share = weightOf('quiet') / (weightOf('quiet') + weightOf('busy'));
  test.ok(share > 0.03 && share < 0.2, `about a tenth: ${share}`);
});
