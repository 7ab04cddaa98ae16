/** A gate's events tell how near a request came to its closest limit. */
import t from 'tap';
import { bench, until } from '../support/case.js';
import { exchange, request } from '../support/raw-client.js';

t.test('from 60 % of a limit on events say how near it is', async (test) => {
  const { gate } = await bench(test, {
    limits: {
      policies: [
        { name: 'api', enabled: false },
        { name: 'ingress', limit: '10/h' },
      ],
    },
  });
  for (let at = 0; at < 11; at++) await exchange(gate.port, request({ target: `/${at}` }));
  await until(() => gate.decisions.length >= 11);
  const said = gate.decisions
    .toSorted((a, b) => Number(a.path.slice(1)) - Number(b.path.slice(1)))
    .map(({ near }) => near?.used);
  test.same(said, [...Array<undefined>(5).fill(undefined), 6, 7, 8, 9, 10, 11]);
  test.match(gate.decisions.at(-1)?.near, { policy: 'ingress', by: 'ip', limit: 10, windowMs: 3_600_000 });
});
