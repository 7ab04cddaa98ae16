import t from 'tap';
import { HEALTHY_MS, nextRestart, RESTART_FIRST_MS, RESTART_MAX_MS } from './backoff.js';

t.test('each quick death doubles the wait, up to the maximum', (test) => {
  const waits: number[] = [];
  let deaths = 0;
  for (let n = 0; n < 8; n++) {
    const next = nextRestart(deaths, 100);
    deaths = next.deaths;
    waits.push(next.waitMs);
  }
  test.strictSame(waits, [250, 500, 1000, 2000, 4000, 8000, 10_000, 10_000]);
  test.end();
});

const cases = [
  {
    name: 'half a minute of health is forgiven all',
    deaths: 7,
    livedMs: HEALTHY_MS,
    waitMs: RESTART_FIRST_MS,
  },
  { name: 'a moment less is not', deaths: 7, livedMs: HEALTHY_MS - 1, waitMs: RESTART_MAX_MS },
  { name: 'the first death waits least', deaths: 0, livedMs: 0, waitMs: RESTART_FIRST_MS },
  { name: 'any number of deaths stays finite', deaths: 1e9, livedMs: 0, waitMs: RESTART_MAX_MS },
];
for (const { name, deaths, livedMs, waitMs } of cases) {
  t.equal(nextRestart(deaths, livedMs).waitMs, waitMs, name);
}
t.equal(nextRestart(9, HEALTHY_MS).deaths, 1, 'after health the count begins anew');
