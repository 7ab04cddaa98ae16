import { EventEmitter } from 'node:events';
import t from 'tap';
import { ipcChannel } from './ipc-channel.js';

type Sent = { message: unknown; done: (error: Error | null) => void };

class Line extends EventEmitter {
  readonly sent: Sent[] = [];
  broken = false;
  send(message: unknown, callback?: (error: Error | null) => void): boolean {
    if (this.broken) throw new Error('write EPIPE');
    this.sent.push({ message, done: callback ?? (() => undefined) });
    return true;
  }
}

t.test('a message goes out with its topic and reaches the handler of that topic only', (test) => {
  const line = new Line();
  const channel = ipcChannel(line, () => true);
  const got: unknown[] = [];
  channel.on('a', (body) => got.push(['a', body]));
  channel.on('b', () => got.push('the first handler'));
  channel.on('b', (body) => got.push(['b', body]));
  test.ok(channel.send('a', { n: 1 }));
  test.strictSame(line.sent[0]?.message, { t: 'a', b: { n: 1 } });
  for (const message of [
    { t: 'a', b: 1 },
    { t: 'b', b: 2 },
    { t: 'c', b: 3 },
  ])
    line.emit('message', message);
  test.strictSame(
    got,
    [
      ['a', 1],
      ['b', 2],
    ],
    'a second handler replaces the first, unknown topics are passed over',
  );
  test.end();
});

t.test('what is no message of ours is passed over', (test) => {
  const line = new Line();
  const channel = ipcChannel(line, () => true);
  channel.on('a', () => test.fail('nothing is for us'));
  for (const odd of [undefined, null, 7, 'a', [], {}, { t: 3 }, { cmd: 'NODE_CLUSTER' }])
    line.emit('message', odd);
  test.end();
});

t.test('sending to an end that is gone drops, counts and never throws', (test) => {
  const line = new Line();
  let open = true;
  const channel = ipcChannel(line, () => open);
  line.broken = true;
  test.equal(channel.send('a', 1), false, 'the line breaks while sending');
  open = false;
  test.equal(channel.send('a', 1), false, 'the line is known to be closed');
  test.equal(ipcChannel(new EventEmitter(), () => true).send('a', 1), false, 'no line at all');
  test.equal(channel.dropped(), 2);
  test.end();
});

t.test('an end that does not read holds at most so many messages, and is served again later', (test) => {
  const line = new Line();
  const channel = ipcChannel(line, () => true, 3);
  const took = Array.from({ length: 5 }, (_, n) => channel.send('a', n));
  test.strictSame(took, [true, true, true, false, false]);
  test.equal(channel.dropped(), 2);
  line.sent[0]?.done(null);
  line.sent[1]?.done(new Error('closed'));
  test.strictSame([channel.send('a', 5), channel.send('a', 6), channel.send('a', 7)], [true, true, false]);
  test.end();
});
