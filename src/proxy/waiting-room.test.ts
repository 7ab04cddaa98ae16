import { EventEmitter } from 'node:events';
import { setTimeout as sleep } from 'node:timers/promises';
import t from 'tap';
import { createWaitingRoom, noPlace } from './waiting-room.js';

function setUp() {
  const room = createWaitingRoom();
  const gone: string[] = [];
  const enter = (name: string, ms: number, client = new EventEmitter()): boolean =>
    room.enter({ ms, max: 2 }, client, () => void gone.push(name));
  return { room, gone, enter };
}

t.test('who waits goes on after the wait, once', async (t) => {
  const { room, gone, enter } = setUp();
  t.ok(enter('a', 20));
  t.same(gone, []);
  await sleep(60);
  t.same(gone, ['a']);
  t.same(room.stats(), { waiting: 0, refused: 0 });
});

t.test('places are bounded, and a client that leaves frees one', async (t) => {
  const { room, gone, enter } = setUp();
  const client = new EventEmitter();
  t.ok(enter('a', 10_000, client));
  t.ok(enter('b', 30));
  t.notOk(enter('c', 1), 'full');
  client.emit('close');
  t.equal(client.listenerCount('close'), 0);
  t.ok(enter('d', 30));
  await sleep(90);
  t.same(gone.sort(), ['b', 'd'], 'the one that left never goes on');
  t.same(room.stats(), { waiting: 0, refused: 1 });
});

t.test('open doors let all go at once, and nobody waits after', async (t) => {
  const { room, gone, enter } = setUp();
  enter('a', 60_000);
  enter('b', 60_000);
  room.open();
  t.same(gone, ['a', 'b']);
  t.ok(enter('c', 60_000));
  t.same(gone, ['a', 'b', 'c']);
});

t.test('without a place the answer is 429 with the wait that was asked for', async (t) => {
  const limit = { policy: 'p', by: 'ip', limit: 1, windowMs: 1, remaining: 0, resetMs: 1, retryAfterMs: 0 };
  t.match(noPlace(2500, limit), { action: 'limit', status: 429, limit: { policy: 'p', retryAfterMs: 2500 } });
  t.match(noPlace(2500, undefined), { status: 429 });
});
