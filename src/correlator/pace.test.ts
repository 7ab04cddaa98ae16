import t from 'tap';
import { addStep, createPace, evennessOf, readPace, writePace } from './pace.js';
import { createDice } from './testing/index.js';

const evenness = (gap: (at: number) => number, steps = 120) => {
  const pace = createPace(0);
  let timeMs = 0;
  for (let at = 0; at < steps; at++) addStep(pace, (timeMs += gap(at)), 200);
  return evennessOf(pace);
};

/** A pause that varies evenly by this share is wholly, mostly or not in one band: where the boundary lies. */
const JITTER: readonly (readonly [jitter: number, least: number, most: number])[] = [
  [0, 1, 1],
  [0.2, 0.97, 1],
  [0.3, 0.85, 1],
  [0.5, 0.5, 0.78],
  [0.9, 0.2, 0.6],
];

t.test('an even pace with some jitter is in one band, a wide jitter is not', async (test) => {
  for (const [jitter, least, most] of JITTER) {
    for (const seed of [1, 2, 3, 4, 5]) {
      const dice = createDice(seed);
      const { share } = evenness(() => 5_000 * dice.between(1 - jitter, 1 + jitter));
      test.ok(share >= least && share <= most, `±${jitter * 100} %: ${share.toFixed(2)}`);
    }
  }
});

t.test('the gaps of people and of chance are in no band', async (test) => {
  for (const seed of [1, 2, 3, 4, 5]) {
    const dice = createDice(seed);
    test.ok(evenness(() => dice.logNormal(8_000, 0.8)).share < 0.5);
    test.ok(evenness(() => dice.exponential(8_000)).share < 0.5);
  }
});

t.test('what follows within the quiet time is the same step, and what runs back is none', async (test) => {
  const pace = createPace(0);
  for (let at = 1; at <= 50; at++) {
    addStep(pace, at * 5_000, 200);
    addStep(pace, at * 5_000 + 60, 200);
    addStep(pace, at * 5_000 - 900, 200);
  }
  test.match(evennessOf(pace), { gaps: 50, share: 1 });
});

t.test('what was long ago fades', async (test) => {
  const dice = createDice(3);
  const { gaps, share } = evenness((at) => (at < 500 ? dice.logNormal(8_000, 1) : 4_000), 1_200);
  test.ok(gaps < 240 && share > 0.95, `${share}`);
});

t.test('saved and read, it is the same; odd shapes are refused', async (test) => {
  const pace = createPace(5);
  for (let at = 0; at < 99; at++) addStep(pace, at * at * 37, 200);
  const copy = readPace(JSON.parse(JSON.stringify(writePace(pace))));
  test.same(copy, pace);
  test.same(readPace(writePace(createPace(7))), createPace(7));
  test.throws(() => readPace('x'));
});
