import { setTimeout as sleep } from 'node:timers/promises';
import t, { type Test } from 'tap';
import { liveNodes } from './live-nodes.js';

/** Gates that beat when told to, on a clock of the test; `says`: what Redis answers from now on. */
function played(t: Test, fixed?: number) {
  const given = { nowMs: 0, says: [1, 0] as unknown, beats: 0 };
  const nodes = liveNodes({
    node: 'me',
    ...(fixed === undefined ? {} : { fixed }),
    everyMs: 2,
    random: () => 0,
    nowMs: () => given.nowMs,
    evaluate: (_, { keys, args }) => {
      given.beats++;
      t.same([keys, args], [['rl:nodes'], ['me', 10, 1000]]);
      return given.says instanceof Error ? Promise.reject(given.says) : Promise.resolve(given.says);
    },
  });
  const held = setInterval(() => undefined, 100);
  t.teardown(() => clearInterval(held));
  t.teardown(() => nodes.close());
  /** Two more beats: the first may have been under way. */
  const beat = async (says: unknown, afterMs = 0): Promise<void> => {
    given.says = says;
    given.nowMs += afterMs;
    const until = given.beats + 2;
    while (given.beats < until) await sleep(1);
    await sleep(0);
  };
  return { nodes, beat, given };
}

t.test('the first beat tells how many there are', async (t) => {
  const { nodes, given } = played(t);
  given.says = [3, 2];
  t.same(nodes.current(), { count: 1, rank: 0 }, 'before it: alone');
  await nodes.first;
  t.same(nodes.current(), { count: 3, rank: 2 });
});

t.test('more gates are believed at once, fewer only after a while', async (t) => {
  const { nodes, beat } = played(t);
  await nodes.first;
  await beat([4, 1]);
  t.equal(nodes.current().count, 4);
  await beat([2, 1], 3);
  t.equal(nodes.current().count, 4, 'a flush makes nobody\'s share larger');
  await beat([2, 1], 11);
  t.equal(nodes.current().count, 2, 'held for as long as a gate may be silent');
});

t.test('an outage keeps the last number', async (t) => {
  const { nodes, beat } = played(t);
  await nodes.first;
  await beat([3, 0]);
  await beat(new Error('away'), 1000);
  t.equal(nodes.current().count, 3);
  for (const odd of [undefined, 'x', [], [0, 0], ['3', 1], [2]]) await beat(odd, 1000);
  t.equal(nodes.current().count, 3, 'and so does what is no answer');
});

t.test('a number from the config holds, whatever the set says', async (t) => {
  const { nodes, beat } = played(t, 5);
  t.same(nodes.current(), { count: 5, rank: Infinity }, 'its place is not known yet: an exact part is nothing');
  await nodes.first;
  await beat([2, 1]);
  t.same(nodes.current(), { count: 5, rank: 1 });
});

t.test('a closed one beats no more', async (t) => {
  const { nodes, given } = played(t);
  await nodes.first;
  nodes.close();
  const { beats } = given;
  await sleep(20);
  t.equal(given.beats, beats);
});
