import fc from 'fast-check';
import t from 'tap';
import { eventFor } from '../telemetry/testing.js';
import { observationOf } from './observation.js';
import { packObservation, unpackObservation } from './packed-observation.js';

const near = { policy: 'login', by: 'ip', used: 4, limit: 5, windowMs: 60_000 };
const observed = observationOf(eventFor({ near }));

t.test('comes back as it was sent', async (test) => {
  for (const each of [observed, observationOf(eventFor({ client: { ip: '::1', key: '::/64' } }))])
    test.same(unpackObservation(packObservation(each)), each);
});

t.test('whatever else arrives is refused, never thrown over', async (test) => {
  const packed = packObservation(observed).split('\t');
  const wrong = (at: number, value: string) =>
    packed.map((each, index) => (index === at ? value : each)).join('\t');
  const rows = [
    '',
    'text',
    packed.slice(1).join('\t'),
    [...packed, ''].join('\t'),
    wrong(0, 'NaN'),
    wrong(0, ''),
    wrong(0, '-1'),
    wrong(0, '1'.repeat(16)),
    wrong(6, '1.5'),
    wrong(15, '0x10'),
    wrong(17, '99'),
    wrong(17, '__proto__'),
    wrong(17, 'map'),
    wrong(19, '[]'),
    wrong(19, '{'),
    wrong(19, 'null'),
    wrong(19, '{"policy":"a","by":"b","used":-1,"limit":1,"windowMs":1}'),
  ];
  for (const row of rows) test.equal(unpackObservation(row), undefined, row.slice(0, 60));
  fc.assert(fc.property(fc.string(), (value) => unpackObservation(value) === undefined));
});

t.test('long and unclean texts are cut and cleaned, and stay in their field and line', async (test) => {
  const path = `/\u0000\u001b[31m\n\t${'x'.repeat(9999)}`;
  const packed = packObservation({ ...observed, path, userAgent: 'a\tb\nc', user: '\ud800' });
  test.notMatch(packed, /\n/);
  const seen = unpackObservation(packed);
  test.equal(seen?.path.length, 256);
  test.match(seen?.path, /^\/··\[31m  x/);
  test.match(seen, { user: '·', userAgent: 'a b c', method: observed.method, near });
});
