import client from 'prom-client';
import t from 'tap';
import { sumOf } from '../telemetry/metrics.js';
import { createRetired, gaugeIn } from './retired.js';

async function snapshot(count: number) {
  const registry = new client.Registry();
  const requests = new client.Counter({
    name: 'requests_total',
    help: 'h',
    labelNames: ['site'],
    registers: [registry],
  });
  const inFlight = new client.Gauge({ name: 'in_flight', help: 'h', registers: [registry] });
  const time = new client.Histogram({ name: 'seconds', help: 'h', buckets: [1, 2], registers: [registry] });
  requests.inc({ site: 'shop' }, count);
  inFlight.set(count);
  time.observe(0.5);
  return registry.getMetricsAsJSON();
}

t.test('any number of dead workers stays in the sum, in bounded room', async (test) => {
  const dead = createRetired(4);
  for (let n = 1; n <= 30; n++) dead.add(await snapshot(n));
  await dead.settled();
  test.ok(dead.snapshots().length <= 5, 'joined', { kept: dead.snapshots().length });
  const text = await sumOf(dead.snapshots());
  test.match(text, 'requests_total{site="shop"} 465');
  test.match(text, 'seconds_count 30');
  test.notMatch(text, 'in_flight', 'the dead have nothing in flight');
});

t.test('a gauge is read out of a snapshot', async (test) => {
  const one = await snapshot(7);
  test.equal(gaugeIn(one, 'in_flight'), 7);
  test.equal(gaugeIn(one, 'not_there'), 0);
});
