import { setTimeout as sleep } from 'node:timers/promises';
import t from 'tap';
import { configSchema, type Config } from '../config/schema.js';
import { packObservation } from '../core/packed-observation.js';
import { fakeBook, observed } from '../correlator/testing-engine.js';
import { createInMemoryCorrelator } from './correlator-in-memory.js';

function configOf(given: Record<string, unknown> = {}): Config {
  const sites = [{ name: 'shop', hosts: ['app.test'], upstreams: ['http://127.0.0.1:1'] }];
  return { ...configSchema.parse({ sites, ...given }), baseDir: '/' };
}

async function until(fits: () => boolean): Promise<void> {
  for (let tries = 0; tries < 400 && !fits(); tries++) await sleep(10);
}

t.test('observations of workers reach the engine; a reload goes on where it was', async (test) => {
  let config = configOf();
  const correlator = createInMemoryCorrelator({
    config: () => config,
    book: fakeBook(),
    log: () => undefined,
  });
  await correlator.follow();
  const now = Date.now();
  const send = (from: number, count: number): void => {
    const batch = Array.from({ length: count }, (_, n) =>
      packObservation(observed({ n: from + n, timeMs: now })),
    );
    correlator.offer([...batch, 'no observation', ''].join('\n'));
  };
  send(0, 100);
  const judged = (): number => correlator.view()?.engine.fates.judged ?? 0;
  await until(() => judged() === 100);
  test.equal(judged(), 100);
  config = configOf({ correlator: { lateness: '40s' } });
  await correlator.follow();
  test.equal(judged(), 0, 'counters start anew');
  send(50, 100);
  await until(() => judged() === 50);
  test.match(correlator.view()?.engine.fates, { judged: 50, repeated: 50 }, 'what was seen before is known');
  config = configOf({ correlator: { enabled: false } });
  await correlator.follow();
  test.equal(correlator.view(), undefined);
  await correlator.close();
});
