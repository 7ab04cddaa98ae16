import { setTimeout as sleep } from 'node:timers/promises';
import t from 'tap';
import { OBSERVATIONS_TOPIC, type ObservationBatch } from '../cluster/observations.js';
import { configSchema, type Config } from '../config/schema.js';
import { channelPair } from '../core/channel.js';
import type { Observation } from '../core/observation.js';
import { packObservation } from '../core/packed-observation.js';
import { fakeBook, observed } from '../correlator/testing-engine.js';
import { stuffing } from '../correlator/testing/index.js';
import { createEmbeddedCorrelator } from './embedded-correlator.js';

function configOf(given: Record<string, unknown> = {}): Config {
  const sites = [{ name: 'shop', hosts: ['app.test'], upstreams: ['http://127.0.0.1:1'] }];
  return { ...configSchema.parse({ sites, ...given }), baseDir: '/' };
}

async function until(fits: () => boolean): Promise<void> {
  for (let tries = 0; tries < 1_000 && !fits(); tries++) await sleep(20);
}

const batchOf = (traffic: readonly Observation[]): ObservationBatch => [
  traffic.length,
  traffic.map(packObservation).join('\n'),
];

t.test('what workers observe is looked at in a thread, and bans come back to the book', async (test) => {
  let config = configOf({ correlator: { evaluateEvery: '100ms' } });
  const book = fakeBook();
  const correlator = createEmbeddedCorrelator({ config: () => config, book, log: () => undefined });
  test.teardown(() => correlator.close());
  const [worker, supervisor] = channelPair();
  correlator.attach(supervisor);
  await correlator.follow();
  const { traffic, attackers } = stuffing({ startMs: Date.now() - 60_000 });
  book.away = true;
  worker.send(OBSERVATIONS_TOPIC, batchOf(traffic));
  await until(() => (correlator.view()?.engine.acts.failures ?? 0) > 0);
  test.equal(book.bans.size, 0, 'the book was away');
  book.away = false;
  await until(() => book.bans.size === attackers.size);
  test.equal(book.bans.size, attackers.size);
  await until(() => (correlator.view()?.engine.fates.judged ?? 0) > 0);
  test.equal(correlator.view()?.engine.fates.judged, traffic.length);
  const flood = batchOf(Array.from({ length: 60_000 }, (_, n) => observed({ n })));
  worker.send(OBSERVATIONS_TOPIC, flood);
  await until(() => (correlator.view()?.busDropped ?? 0) > 0);
  test.equal(correlator.view()?.busDropped, 60_000, 'more than may be under way is counted');
  config = configOf({ correlator: { enabled: false } });
  await correlator.follow();
  test.equal(correlator.view(), undefined);
});
