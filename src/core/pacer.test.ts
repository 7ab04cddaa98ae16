import t from 'tap';
import { atOnce, inSlices } from './pacer.js';

function* work(steps: number, onStep: () => void): Generator<undefined, string> {
  for (let n = 0; n < steps; n++) {
    onStep();
    yield;
  }
  return 'done';
}

const busy = (ms: number) => (): void => {
  for (const until = performance.now() + ms; performance.now() < until;);
};

t.test('long work lets timers run between its steps', async (t) => {
  let turns = 0;
  const timer = setInterval(() => turns++, 1);
  t.equal(await inSlices(work(10, busy(6))), 'done');
  clearInterval(timer);
  t.ok(turns >= 5, 'they ran', { turns });
});

t.test('what it throws is handed on, at one go and in slices', async (t) => {
  const failing = () =>
    work(3, () => {
      throw new Error('broken');
    });
  t.throws(() => atOnce(failing()), /broken/);
  await t.rejects(inSlices(failing()), /broken/);
  t.equal(
    atOnce(work(3, () => undefined)),
    'done',
  );
});
