import t from 'tap';
import type { Observation } from '../../core/observation.js';
import { background, innocents, LOOK_ALIKES } from './index.js';

const generators = { background, ...LOOK_ALIKES };
const lengthMs = 600_000;

t.test(
  'made traffic is the same for the same seed, sorted, within its span, with ids of its own',
  async (test) => {
    for (const [name, make] of Object.entries(generators)) {
      const made = make({ lengthMs, seed: 3, startMs: 1_000_000 });
      const text = JSON.stringify(made);
      test.ok(JSON.stringify(make({ lengthMs, seed: 3, startMs: 1_000_000 })) === text, name);
      const other = make({ lengthMs, seed: 4, startMs: 1_000_000 });
      test.notOk(JSON.stringify(other) === text, `${name}: other seed`);
      test.ok(made.every(({ timeMs }) => timeMs >= 1_000_000 && timeMs < 1_600_000));
      test.ok(made.every(({ timeMs }, at) => at === 0 || timeMs >= made[at - 1]!.timeMs));
    }
    const ids = innocents({ lengthMs }).map(({ requestId }) => requestId);
    test.equal(new Set(ids).size, ids.length);
  },
);

const count = (of: readonly Observation[], by: (one: Observation) => unknown): number =>
  new Set(of.map(by)).size;
const failed = ({ method, status }: Observation): boolean => method === 'POST' && status === 401;

t.test('each has what makes it look like an attack', async (test) => {
  const office = LOOK_ALIKES.office();
  test.equal(
    count(office, ({ ip }) => ip),
    1,
  );
  test.equal(
    count(office, ({ userAgent }) => userAgent),
    1,
  );
  test.ok(count(office, ({ session }) => session) > 30);
  test.ok(office.filter(failed).length >= 3);

  const carrier = LOOK_ALIKES.carrier();
  test.ok(count(carrier, ({ ip }) => ip) > 2000);
  test.equal(
    count(carrier, ({ asn }) => asn),
    1,
  );
  test.ok(count(carrier, ({ key }) => key) > 2000);
  test.ok(carrier.some(({ ip, key }) => ip.includes(':') && /^[0-9a-f:]+::\/64$/.test(key)));
  test.ok(
    carrier.every(({ ip }) => !ip.includes(':') || ip.split(':').length <= 7),
    'addresses are well formed',
  );

  const launch = LOOK_ALIKES.launch();
  test.ok(count(launch, ({ ip }) => ip) > 2900);
  test.ok(launch.filter(({ userAgent }) => userAgent.startsWith('ShopApp')).length > launch.length / 5);
  test.ok(launch.filter(failed).length > 200);

  test.ok(LOOK_ALIKES.probe().filter(failed).length >= 28);
  test.equal(LOOK_ALIKES.batch().length, 5400);
  test.ok(LOOK_ALIKES.batch().some(({ near }) => near !== undefined && near.used > 530));
  test.ok(count(LOOK_ALIKES.crawler(), ({ ip }) => ip) >= 150);
});
