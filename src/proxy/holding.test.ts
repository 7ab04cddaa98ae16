import t from 'tap';
import { createClients, type Client, type Clients } from './clients.js';
import { createHeldBytes, createHolding, type Full, type HeldBytes, type Holding } from './holding.js';

const KB = 1024;
const caps = { heldTotal: 4096 * KB, heldPerAddress: 2048 * KB };

type World = Readonly<{ held: HeldBytes; clients: Clients; cut: string[] }>;
const world = (): World => ({ held: createHeldBytes(), clients: createClients(), cut: [] });

function body({ held, clients, cut }: World, name: string): Holding {
  const client: Client = clients.enter(name.split('/')[0]!, 'requests');
  const holding = createHolding(held, client, clients);
  holding.begin((full: Full) => {
    cut.push(`${name} ${full}`);
    holding.release();
  });
  return holding;
}

/** So that one body has been held for longer than the next. */
const tick = (): Promise<void> => new Promise((done) => setTimeout(done, 3));

t.test('large bodies never shut out small ones', async (t) => {
  const at = world();
  for (const name of ['a', 'b', 'c', 'd']) {
    for (let n = 0; n < 2; n++) body(at, `${name}/${n}`).add(700 * KB, caps);
  }
  const cut = at.cut.length;
  for (let n = 0; n < 100; n++) t.equal(body(at, `a/small ${n}`).add(2 * KB, caps), undefined);
  t.equal(at.cut.length, cut, 'and are not cut for them');
});

t.test('when large bodies fill their part, a body of whoever holds most goes', async (t) => {
  const at = world();
  body(at, 'a/1').add(900 * KB, caps);
  body(at, 'a/2').add(1000 * KB, caps);
  await tick();
  t.equal(body(at, 'b/1').add(1000 * KB, caps), undefined);
  t.equal(body(at, 'c/1').add(500 * KB, caps), undefined, 'the newcomer stays');
  t.equal(at.cut.length, 1);
  t.match(at.cut[0], /^a\/. total$/);
  t.equal(at.held.refused, 1);
});

t.test('within one address its largest and slowest body goes', async (t) => {
  const at = world();
  body(at, 'a/idle').add(1000 * KB, caps);
  await tick();
  body(at, 'a/late').add(1000 * KB, caps);
  t.equal(body(at, 'a/new').add(500 * KB, caps), undefined);
  t.strictSame(at.cut, ['a/idle address']);
  t.equal(at.held.refusedAddress, 1);
});

t.test('small bodies of many addresses give way too, those of one to their own', async (t) => {
  const at = world();
  for (let n = 0; n < 8; n++) body(at, `a/${n}`).add(64 * KB, caps);
  await tick();
  t.equal(body(at, 'a/8').add(10 * KB, caps), undefined);
  t.equal(at.cut.length, 1, 'half of the part is the most for one address');
  for (const name of 'bcdefgh') for (let n = 0; n < 8; n++) body(at, `${name}/${n}`).add(64 * KB, caps);
  const before = at.cut.length;
  await tick();
  t.equal(body(at, 'new').add(64 * KB, caps), undefined, 'a newcomer is let in');
  t.ok(at.cut.length > before);
  t.ok(at.held.small + at.held.large <= caps.heldTotal, 'within what may be held');
});

t.test('a body that goes on is counted until its end, and never cut', async (t) => {
  const at = world();
  const whole = Array.from({ length: 3 }, (_, n) => {
    const one = body(at, `${n}/whole`);
    one.add(1000 * KB, caps);
    one.settle();
    return one;
  });
  t.equal(body(at, 'new').add(500 * KB, caps), 'total', 'then the newcomer has to go');
  t.strictSame(at.cut, []);
  for (const one of whole) {
    one.release();
    one.release();
  }
  t.equal(at.held.large, 500 * KB);
  t.equal(at.held.small, 0);
});
