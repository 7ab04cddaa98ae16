import t from 'tap';
import { channelPair } from '../core/channel.js';
import type { Member } from './fleet.js';
import { BEATS, createHeartbeat } from './heartbeat.js';
import { TOPICS } from './messages.js';

function setUp() {
  const hung: number[] = [];
  const heartbeat = createHeartbeat({ timeoutMs: () => 1_000, onHung: ({ id }) => void hung.push(id) });
  const [here, there] = channelPair();
  const member: Member = { id: 1, pid: 1001, channel: here, startedMs: 0, place: 0 };
  let pings = 0;
  there.on(TOPICS.ping, () => void pings++);
  const alive = heartbeat.watch(member);
  const beats = (count: number, answered: boolean): void => {
    for (let n = 0; n < count; n++) {
      heartbeat.beat();
      if (answered) alive();
    }
  };
  return { heartbeat, member, hung, alive, beats, pings: () => pings };
}

t.test('a worker that answers is never handed over, one that falls silent is, once', async (test) => {
  const { alive, beats, hung, pings } = setUp();
  beats(BEATS * 20, true);
  await new Promise(setImmediate);
  test.equal(pings(), BEATS * 20, 'it was asked each time');
  beats(BEATS, false);
  test.strictSame(hung, [], 'it has the whole of its time');
  alive();
  beats(BEATS, false);
  test.strictSame(hung, [], 'one late answer begins it anew');
  beats(1, false);
  test.strictSame(hung, [1]);
  beats(BEATS * 3, false);
  test.strictSame(hung, [1], 'not twice');
});

t.test('a worker that loads may be silent for longer, but not for ever', (test) => {
  const { beats, hung } = setUp();
  beats(BEATS * 6, false);
  test.strictSame(hung, []);
  beats(1, false);
  test.strictSame(hung, [1]);
  test.end();
});

t.test('a worker that is gone is not asked any more', async (test) => {
  const { heartbeat, member, beats, hung, pings } = setUp();
  heartbeat.forget(member);
  beats(BEATS * 10, false);
  await new Promise(setImmediate);
  test.strictSame([hung, pings()], [[], 0]);
});
