import fc from 'fast-check';
import t from 'tap';
import { eventFor } from '../telemetry/testing.js';
import { observationOf } from './observation.js';
import { packObservation, unpackObservation } from './packed-observation.js';

const near = { policy: 'login', by: 'ip', used: 4, limit: 5, windowMs: 60_000 };
const observed = observationOf(eventFor({ near }));

t.test('comes back as it was sent, over JSON', async (test) => {
  for (const each of [observed, observationOf(eventFor({ client: { ip: '::1', key: '::/64' } }))])
    test.same(unpackObservation(JSON.parse(JSON.stringify(packObservation(each)))), each);
});

t.test('whatever else arrives is refused, never thrown over', async (test) => {
  const packed = packObservation(observed);
  const wrong = (at: number, value: unknown) => packed.map((each, index) => (index === at ? value : each));
  const rows = [
    null,
    'text',
    {},
    [],
    packed.slice(1),
    wrong(0, NaN),
    wrong(0, '1'),
    wrong(0, -1),
    wrong(1, null),
    wrong(6, 1.5),
    wrong(8, 5),
    wrong(14, { toString: () => 'x' }),
    wrong(17, 99),
    wrong(17, '__proto__'),
    wrong(17, 'map'),
    wrong(19, []),
    wrong(19, ['a', 'b', Infinity, 1, 1]),
  ];
  for (const row of rows) test.equal(unpackObservation(row), undefined, JSON.stringify(row)?.slice(0, 60));
  fc.assert(fc.property(fc.anything(), (value) => unpackObservation(value) === undefined));
});

t.test('long and unclean texts are cut and cleaned', async (test) => {
  const packed = packObservation({ ...observed, path: `/\u0000\u001b[31m\n${'x'.repeat(9999)}`, user: '\ud800' });
  const seen = unpackObservation(packed);
  test.equal(seen?.path.length, 256);
  test.match(seen?.path, /^\/··\[31m·x/);
  test.equal(seen?.user, '·');
});
