import t from 'tap';
import { openHyperLogLog } from './hyper-log-log.js';
import { openTimeBuckets } from './time-buckets.js';
import { openTopCounts } from './top-counts.js';

/** Addresses as they come: neighbours that differ in a digit. */
const address = (at: number): string => `10.${(at >> 16) & 255}.${(at >> 8) & 255}.${at & 255}`;

t.test('a HyperLogLog counts from none to a hundred thousand within its error', async (test) => {
  for (const precision of [10, 12]) {
    const sketch = openHyperLogLog(precision);
    test.equal(sketch.count(), 0);
    let worst = 0;
    for (let seen = 1; seen <= 100_000; seen++) {
      sketch.add(address(seen));
      if (seen % 3 === 0) sketch.add(address(seen / 3));
      if (seen > 200 && seen % 997 === 0) worst = Math.max(worst, Math.abs(sketch.count() / seen - 1));
      if (seen === 20) test.ok(Math.abs(sketch.count() - 20) <= 1, 'few are nearly exact');
    }
    // Four times the usual error: what one in many thousand seeds would show.
    test.ok(worst < (4 * 1.04) / Math.sqrt(2 ** precision), `precision ${precision}: ${worst.toFixed(4)}`);
  }
});

t.test('the mean error over many sets is what the paper says', async (test) => {
  const errors = Array.from({ length: 60 }, (_, set) => {
    const sketch = openHyperLogLog(10);
    for (let at = 0; at < 5_000; at++) sketch.add(`${set}/2001:db8:${at.toString(16)}::/64`);
    return sketch.count() / 5_000 - 1;
  });
  const mean = errors.reduce((sum, error) => sum + error, 0) / errors.length;
  const deviation = Math.sqrt(errors.reduce((sum, error) => sum + error * error, 0) / errors.length);
  test.ok(Math.abs(mean) < 0.015, `bias ${mean.toFixed(4)}`);
  test.ok(deviation < 0.05, `deviation ${deviation.toFixed(4)}`);
});

t.test('pairs of numbers count like texts', async (test) => {
  const sketch = openHyperLogLog(10);
  for (let at = 0; at < 20_000; at++) sketch.addPair(0x20010db8, (0xa000 << 16) + at);
  for (let at = 0; at < 20_000; at++) sketch.addPair(0x20010db8 + at, 7);
  test.ok(Math.abs(sketch.count() / 40_000 - 1) < 0.13, `${sketch.count()}`);
});

t.test('merged, and saved and opened, it is as if it had seen everything', async (test) => {
  for (const size of [0, 10, 255, 256, 257, 4_000]) {
    const whole = openHyperLogLog(10);
    const parts = [openHyperLogLog(10), openHyperLogLog(10), openHyperLogLog(10)];
    for (let at = 0; at < size; at++) {
      whole.add(address(at));
      parts[at % 3]!.add(address(at));
    }
    const merged = openHyperLogLog(10);
    for (const part of parts) merged.merge(openHyperLogLog(10, part.save()));
    test.equal(merged.save(), whole.save(), `${size}`);
    test.equal(merged.count(), whole.count());
  }
  test.ok(openHyperLogLog(10).save().length <= 1, 'an empty one takes no room');
  for (const text of ['x', 'd', 'dAAAA', 's/////w==', 'sAA', 's////'])
    test.throws(() => openHyperLogLog(10, text), RangeError, text);
  test.throws(() => openHyperLogLog(12).merge(openHyperLogLog(10)), RangeError);
  test.throws(() => openHyperLogLog(3), RangeError);
});

t.test(
  'top counts keep what is frequent, never too low, never too high by more than total/keysMax',
  async (test) => {
    const top = openTopCounts(64);
    const truth = new Map<string, number>();
    let state = 7;
    for (let at = 0; at < 60_000; at++) {
      state = (Math.imul(state, 1_103_515_245) + 12_345) >>> 0;
      // Zipf-like: key k with a share of about 1/k.
      const key = `k${Math.floor(Math.exp((state / 4_294_967_296) * Math.log(5_000)))}`;
      truth.set(key, (truth.get(key) ?? 0) + 1);
      top.add(key, 1);
    }
    test.equal(top.size(), 64);
    test.equal(top.total(), 60_000);
    test.ok(top.displaced() > 0);
    for (const [key, count, error] of top.entries()) {
      const real = truth.get(key) ?? 0;
      test.ok(count >= real && count - error <= real && error <= 60_000 / 64, key);
    }
    for (const [key, real] of truth)
      if (real > 60_000 / 64) test.ok(top.count(key) >= real, `${key} is kept`);
  },
);

t.test('top counts go on from a saved state, and fade', async (test) => {
  const keys = Array.from({ length: 500 }, (_, at) => `k${(at * at) % 31}`);
  const one = openTopCounts(8);
  let other = openTopCounts(8);
  keys.forEach((key, at) => {
    one.add(key, 1);
    other.add(key, 1);
    if (at % 97 === 0) other = openTopCounts(8, JSON.parse(JSON.stringify(other.save())));
  });
  test.same(other.save(), one.save());
  const [first] = one.entries();
  one.fade(0.5, 0);
  test.equal(one.count(first![0]), first![1] / 2);
  one.fade(0.001, 1);
  test.equal(one.size(), 0);
});

t.test('buckets follow event time, take the late and refuse the too late', async (test) => {
  const left: number[] = [];
  const options = {
    bucketMs: 10,
    keep: 3,
    make: (): number[] => [],
    onLeave: (_: number[], at: number) => left.push(at),
  };
  const buckets = openTimeBuckets(options);
  for (const time of [100, 112, 105, 131, 119]) buckets.at(time)?.push(time);
  test.same(buckets.all(), [
    [110, [112, 119]],
    [130, [131]],
  ]);
  test.same(left, [100]);
  test.equal(buckets.at(109), undefined, 'older than the window');
  buckets.at(125)?.push(125);
  test.same(
    buckets.since(110).map(([start]) => start),
    [120, 130],
  );
  const again = openTimeBuckets({ ...options, saved: buckets.all() });
  test.same(again.all(), buckets.all());
  test.ok(again.giveUpOldest(130));
  test.same(
    again.all().map(([start]) => start),
    [120, 130],
  );
  again.at(900);
  test.notOk(again.giveUpOldest(900), 'the one in use stays');
});
