import { setTimeout as sleep } from 'node:timers/promises';
import t from 'tap';
import { createLease } from './lease.js';

/** A key that ends by itself, and a Redis that may be away. */
function fakeKey() {
  const key = { holder: '', untilMs: 0, away: false };
  const evaluate = async (
    source: string,
    { args }: { args: readonly (string | number)[] },
  ): Promise<unknown> => {
    if (key.away) throw new Error('away');
    const holder = String(args[0]);
    const isFree = key.holder === '' || key.untilMs < Date.now();
    if (source.includes('DEL')) {
      if (key.holder === holder) key.holder = '';
      return 1;
    }
    if (!isFree && key.holder !== holder) return 0;
    [key.holder, key.untilMs] = [holder, Date.now() + Number(args[1])];
    return 1;
  };
  return { key, evaluate };
}
async function until(fits: () => boolean): Promise<void> {
  for (let tries = 0; tries < 400 && !fits(); tries++) await sleep(10);
}

t.test('one holds it; when it gives it back or is silent, another does', async (test) => {
  const { key, evaluate } = fakeKey();
  const times = { ttlMs: 300, everyMs: 30 };
  const [a, b] = ['a', 'b'].map((holder) => createLease({ evaluate, group: 'g', holder, ...times }));
  a!.start();
  await until(() => a!.isHeld());
  b!.start();
  await sleep(100);
  test.ok(a!.isHeld());
  test.notOk(b!.isHeld());
  await a!.close();
  await until(() => b!.isHeld());
  test.ok(b!.isHeld());
  test.notOk(a!.isHeld());
  key.away = true;
  await until(() => !b!.isHeld());
  test.notOk(b!.isHeld(), 'nobody believes for longer than the key lasts');
  key.away = false;
  await until(() => b!.isHeld());
  test.ok(b!.isHeld());
  await b!.close();
});
