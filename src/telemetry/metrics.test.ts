import t from 'tap';
import type { Step } from '../core/event.js';
import { metricsSection } from './config.js';
import { createMetrics, joined, retired, sumOf, type MetricSnapshot } from './metrics.js';
import { eventFor } from './testing.js';

const config = metricsSection.parse({});
const open = () => createMetrics(config, { sites: ['shop'] });
const overIpc = (snapshot: MetricSnapshot): MetricSnapshot =>
  JSON.parse(JSON.stringify(snapshot)) as MetricSnapshot;

const total = (text: string, name: string): number =>
  [...text.matchAll(new RegExp(`^${name}(?:\\{[^}]*\\})? ([\\d.e+]+)$`, 'gm'))].reduce(
    (sum, [, n]) => sum + Number(n),
    0,
  );
const seriesOf = (text: string): number =>
  text.split('\n').filter((line) => line !== '' && !line.startsWith('#')).length;

const limitStep: Step = {
  stage: 'limits',
  before: 0,
  after: 25,
  durationUs: 9,
  findings: [{ id: 'LIMIT-API', kind: 'limit', points: 25, message: 'm' }],
};

t.test('an event is counted under closed labels', async (test) => {
  const metrics = open();
  metrics.record(eventFor({ bytesIn: 10 }));
  metrics.record(
    eventFor({
      site: 'else',
      method: 'BREW',
      status: 0,
      action: 'limit',
      steps: [limitStep],
      clientAborted: true,
    }),
  );
  metrics.gauge('in_flight', 'x', () => 7);
  const text = await sumOf([overIpc(await metrics.snapshot())]);
  const lines = [
    'tidegate_requests_total{site="shop",method="GET",action="pass",status="2xx"} 1',
    'tidegate_requests_total{site="other",method="other",action="limit",status="none"} 1',
    'tidegate_findings_total{id="LIMIT-API",stage="limits"} 1',
    'tidegate_request_body_bytes_total 10',
    'tidegate_client_aborts_total 1',
    'tidegate_in_flight 7',
  ];
  for (const line of lines) test.ok(text.includes(line), line);
  test.match(text, /tidegate_stage_duration_seconds_count\{stage="rules"\} 1/);
  test.match(text, /tidegate_build_info\{/);
  test.match(text, /tidegate_nodejs_eventloop_lag/);
});

t.test('an origin that failed is counted by kind', async (test) => {
  const rows = [
    ['ECONNREFUSED', 'refused'],
    ['ECONNRESET', 'reset'],
    ['UND_ERR_HEADERS_TIMEOUT', 'timeout'],
    ['ENOTFOUND', 'dns'],
    ['UNHEARD_OF', 'other'],
  ] as const;
  for (const [code, kind] of rows) {
    const metrics = open();
    const upstream = { address: 'http://10.0.0.1', status: 0, durationUs: 1, attempts: 2, error: code };
    metrics.record(eventFor({ status: 502, action: 'error', error: 'no answer', upstream }));
    const text = await sumOf([await metrics.snapshot()]);
    test.ok(text.includes(`tidegate_upstream_errors_total{kind="${kind}"} 1`), code);
    test.ok(text.includes('tidegate_upstream_retries_total 1'), code);
  }
});

t.test('what clients choose adds no series', async (test) => {
  const metrics = open();
  const attack = (from: number, count: number): void => {
    for (let n = from; n < from + count; n++) {
      metrics.record(
        eventFor({
          path: `/p${n}`,
          host: `h${n}.test`,
          site: `s${n}`,
          method: `FOO${n}`,
          client: { ip: `10.0.${n}`, key: `k${n}` },
        }),
      );
    }
  };
  attack(0, 10);
  const early = seriesOf(await sumOf([await metrics.snapshot()]));
  attack(10, 100_000);
  const from = performance.now();
  const text = await sumOf([await metrics.snapshot()]);
  test.ok(performance.now() - from < 3000, 'a scrape stays quick');
  test.ok(Math.abs(seriesOf(text) - early) < 20, 'no growth', { early, late: seriesOf(text) });
  test.notMatch(text, /FOO7|h55\.test|\/p77|s99/);
  test.equal(total(text, 'tidegate_requests_total'), 100_010);
});

t.test('findings beyond the bound go to `other` and are counted', async (test) => {
  const metrics = open();
  for (let n = 0; n < 2500; n++) {
    metrics.record(
      eventFor({ steps: [{ ...limitStep, findings: [{ ...limitStep.findings[0]!, id: `F-${n}` }] }] }),
    );
  }
  const text = await sumOf([await metrics.snapshot()]);
  test.equal(total(text, 'tidegate_findings_total'), 2500);
  test.equal(total(text, 'tidegate_label_overflow_total'), 500);
  test.ok(text.split('\n').filter((line) => line.startsWith('tidegate_findings_total')).length <= 2001);
});

t.test("workers' counters sum, also after some were replaced", async (test) => {
  let dead: MetricSnapshot | undefined;
  for (let life = 0; life < 5; life++) {
    const worker = open();
    worker.gauge('in_flight', 'x', () => 3);
    for (let n = 0; n < 10; n++) worker.record(eventFor({ steps: [limitStep] }));
    const left = retired(overIpc(await worker.snapshot()));
    dead = dead === undefined ? left : overIpc(await joined([dead, left]));
  }
  const alive = open();
  alive.gauge('in_flight', 'x', () => 1);
  alive.record(eventFor());
  const text = await sumOf([overIpc(await alive.snapshot()), dead!]);
  test.equal(total(text, 'tidegate_requests_total'), 51);
  test.equal(total(text, 'tidegate_findings_total'), 50);
  test.equal(total(text, 'tidegate_in_flight'), 1, 'gauges of the dead do not count');
  test.match(text, /tidegate_stage_duration_seconds_count\{stage="total"\} 11/, 'histograms are summed');
  test.ok(dead!.length > 0 && JSON.stringify(dead).length < 200_000, 'what the dead leave does not grow');
});

t.test('no snapshot at all is an empty page', async (test) => {
  test.equal(await sumOf([]), '');
});

t.test('a site that a reload brought is counted by its name', async (test) => {
  const metrics = open();
  metrics.record(eventFor({ site: 'blog' }));
  metrics.addSites(['shop', 'blog']);
  metrics.record(eventFor({ site: 'blog' }));
  metrics.record(eventFor({ site: 'shop' }));
  const text = await sumOf([overIpc(await metrics.snapshot())]);
  for (const site of ['other', 'blog', 'shop'])
    test.match(text, new RegExp(`site="${site}",[^}]*\\} 1\n`), site);
});

t.test('what others count is a counter, and what is not there has no series', async (test) => {
  const metrics = open();
  let count: number | undefined = 3;
  metrics.counter('lost', 'x', () => count);
  metrics.counters('rejected', { help: 'x', label: 'cause', read: () => [['late', count ?? 0]] });
  metrics.gauge('connected', 'x', () => count && 1);
  const read = async () => sumOf([overIpc(await metrics.snapshot()), overIpc(await metrics.snapshot())]);
  for (const line of ['# TYPE tidegate_lost counter', 'tidegate_lost 6', 'tidegate_rejected{cause="late"} 6'])
    test.ok((await read()).includes(line), line);
  test.match(await read(), /^# TYPE tidegate_rejected counter$/m);
  test.match(await read(), /^tidegate_connected 2$/m);
  count = undefined;
  test.notMatch(await read(), /^tidegate_(?:lost|connected)/m);
  count = 4;
  test.match(await read(), /^tidegate_lost 8$/m);
});
