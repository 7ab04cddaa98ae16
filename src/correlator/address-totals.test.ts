import t from 'tap';
import { createAddressTotals, totalOf } from './address-totals.js';

const HOUR = 3_600_000;
const START = Date.UTC(2026, 10, 30);

t.test('an address is never said to have sent less than it did, and seldom much more', async (test) => {
  const totals = createAddressTotals();
  for (let at = 0; at < 20_000; at++) totals.add(`10.${at >> 8}.${at & 255}.1`, START + at);
  for (let at = 0; at < 500; at++) totals.add('192.0.2.1', START + at);
  const total = totalOf([totals], '192.0.2.1', START + HOUR);
  test.ok(total >= 500 && total < 520, `${total}`);
});

t.test('parts add up to what one would have counted', async (test) => {
  const whole = createAddressTotals();
  const parts = [createAddressTotals(), createAddressTotals(), createAddressTotals()];
  for (let at = 0; at < 30_000; at++) {
    const key = `192.0.${at % 7}.${at % 211}`;
    whole.add(key, START + at);
    parts[at % 3]!.add(key, START + at);
  }
  for (const key of ['192.0.0.0', '192.0.3.9', '192.0.5.5', 'unseen']) {
    test.equal(totalOf(parts, key, START + HOUR), totalOf([whole], key, START + HOUR), key);
  }
});

t.test(
  'what is older than three hours is forgotten; what is younger than 90 minutes is not',
  async (test) => {
    const totals = createAddressTotals();
    totals.add('192.0.2.1', START);
    test.equal(totalOf([totals], '192.0.2.1', START + 1.49 * HOUR), 1);
    test.equal(totalOf([totals], '192.0.2.1', START + 3 * HOUR), 0);
    totals.add('192.0.2.9', START + 3 * HOUR);
    test.equal(totalOf([totals], '192.0.2.1', START + 3 * HOUR), 0);
    totals.add('192.0.2.1', START);
    test.equal(totalOf([totals], '192.0.2.1', START + 3 * HOUR), 0, 'late ones count for nothing');
  },
);

t.test('saved and opened, it goes on as if nothing had been', async (test) => {
  const one = createAddressTotals();
  for (let at = 0; at < 999; at++) one.add(`192.0.2.${at % 200}`, START + at);
  const two = createAddressTotals(JSON.parse(JSON.stringify(one.save())));
  for (const totals of [one, two]) totals.add('192.0.2.1', START + HOUR);
  test.same(two.save(), one.save());
  test.throws(() =>
    createAddressTotals({ even: { stretch: 1, cells: 'AAAA' }, odd: { stretch: 0, cells: '' } }),
  );
});
