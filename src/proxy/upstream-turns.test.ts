import t from 'tap';
import { createTurnQueue } from './upstream-turns.js';

const caps = { upstreamConnections: 8, upstreamQueue: 8, addressShare: 25 };

t.test('one client cannot hold the last connections', async (t) => {
  const turns = createTurnQueue();
  let mine = 0;
  while (turns.take('a', caps)) mine++;
  t.equal(mine, 6, 'it may have what is not kept for others');
  t.ok(turns.take('b', caps) && turns.take('c', caps), 'others may have the rest');
  t.notOk(turns.take('d', caps), 'never more than there are');
  t.equal(turns.busy(), 8);
});

t.test('alone at a small origin, a client may have every connection', async (t) => {
  const turns = createTurnQueue();
  const small = { ...caps, upstreamConnections: 2 };
  t.ok(turns.take('a', small) && turns.take('a', small));
  t.notOk(turns.take('a', small));
});

t.test('clients that wait are served by address in turn', async (t) => {
  const turns = createTurnQueue();
  const one = { ...caps, upstreamConnections: 1 };
  t.ok(turns.take('a', one));
  const served: string[] = [];
  for (const [client, name] of ['a1', 'a2', 'a3', 'b1', 'b2'].map((name) => [name[0]!, name] as const))
    turns.wait(client, () => served.push(name), one);
  t.equal(turns.waiting(), 5);
  let at = 'a';
  for (let n = 0; n < 5; n++) {
    turns.end(at);
    at = served.at(-1)![0]!;
  }
  t.same(served, ['a1', 'b1', 'a2', 'b2', 'a3']);
  turns.end(at);
  t.equal(turns.busy(), 0);
});

t.test('the queue is bounded, one client cannot fill it, and who leaves frees a place', async (t) => {
  const turns = createTurnQueue();
  const one = { ...caps, upstreamConnections: 1 };
  turns.take('x', one);
  const nothing = (): void => undefined;
  const waits = Array.from({ length: 8 }, () => turns.wait('a', nothing, one));
  t.equal(waits.filter((leave) => leave !== undefined).length, 6, 'its part of the queue');
  t.ok(turns.wait('b', nothing, one) && turns.wait('c', nothing, one));
  t.equal(turns.wait('d', nothing, one), undefined, 'full');
  waits[0]!();
  waits[0]!();
  t.equal(turns.waiting(), 7);
  t.ok(turns.wait('d', nothing, one));
});

t.test('however many large holders there are, others find a place', async (t) => {
  const turns = createTurnQueue();
  const large = { ...caps, upstreamConnections: 1024, upstreamQueue: 1024 };
  const holders = Array.from({ length: 300 }, (_, n) => `holder ${n}`);
  for (let round = 0; round < 1024; round++) for (const name of holders) turns.take(name, large);
  let others = 0;
  while (others < 1000 && turns.take(`newcomer ${others}`, large)) others++;
  t.ok(others >= 32, 'newcomers are let in', { others });
  t.ok(others <= 64, 'the holders have most of it');
});

t.test('large holders leave a browser all that it opens', async (t) => {
  const turns = createTurnQueue();
  const large = { ...caps, upstreamConnections: 1024 };
  for (let n = 0; n < 3; n++) while (turns.take(`holder ${n}`, large));
  for (let n = 0; n < 6; n++) t.ok(turns.take('browser', large));
});
