import t from 'tap';
import { channelPair } from '../core/channel.js';
import { createRoster } from './roster.js';

const member = (id: number) => ({ id, place: 0, pid: 1000 + id, channel: channelPair()[0], startedMs: 0 });

t.test('waiting ends when the wish comes true, for everybody who waits', async (test) => {
  const roster = createRoster();
  const state = roster.add(member(1));
  const both = Promise.all([
    roster.until(() => roster.ready().length === 1, 5_000),
    roster.until(() => state.version === 2, 5_000),
  ]);
  state.version = 2;
  state.ready = { listen: [], rules: 0, version: 2 };
  roster.stir();
  test.strictSame(await both, [true, true]);
});

t.test('waiting ends with false when the time is over', async (test) => {
  test.equal(await createRoster().until(() => false, 5), false);
});

t.test('a worker that is gone is no longer listed, nor is one that took its number', (test) => {
  const roster = createRoster();
  const old = roster.add(member(1));
  test.ok(roster.has(old));
  test.equal(roster.remove(1), old);
  test.equal(roster.remove(1), undefined);
  roster.add(member(1));
  test.notOk(roster.has(old));
  test.equal(roster.all().length, 1);
  test.end();
});
