/** The caps of the XDP filter: exact in each window, whatever CPUs the packets arrive at; their events. */
import { setTimeout as sleep } from 'node:timers/promises';
import t from 'tap';
import { until } from '../support/case.js';
import { place, wireMissing } from './attached.js';
import { ACK, frame, NEXT, SYN, UDP } from './frames.js';
import { filterMissing, tryOut } from './try-out.js';

const skip = { skip: filterMissing };
const wired = { skip: wireMissing };
/** So long that no test outlives it. */
const LONG = '60000';

t.test('exactly the cap passes in a window, and again in the next', skip, async (t) => {
  const filter = tryOut(t, ['--packet-cap', '1000', '--packet-window-ms', '400', '--syn-cap', '0']);
  const bytes = frame({ from: '10.0.0.1', protocol: NEXT.udp, payload: UDP });
  for (const window of ['first', 'second', 'third']) {
    const began = Date.now();
    const { counters } = await filter.packet(bytes, 5000);
    // A machine that stood still for a whole window sees two of them.
    const twice = Date.now() - began >= 400;
    if (!twice) t.match(counters, { 'passed.judged': 1000, 'dropped.packetCap': 4000 }, `${window} window`);
    await sleep(420);
  }
});

t.test('the default is 10 000 packets', skip, async (t) => {
  const filter = tryOut(t, ['--packet-window-ms', LONG]);
  const { counters } = await filter.packet(frame({ from: '10.0.0.1', payload: ACK }), 10_001);
  t.same(counters, { 'passed.judged': 10_000, 'dropped.packetCap': 1, 'noted.event': 1 });
});

t.test('an IPv4 address has windows of its own, an IPv6 one shares those of its /64', skip, async (t) => {
  const filter = tryOut(t, ['--packet-cap', '10', '--packet-window-ms', LONG]);
  const passed = async (from: string) => {
    return (await filter.packet(frame({ from, payload: ACK }), 8)).counters['passed.judged'] ?? 0;
  };
  t.equal(await passed('10.0.0.1'), 8);
  t.equal(await passed('10.0.0.2'), 8);
  t.equal(await passed('10.0.0.1'), 2);
  t.equal(await passed('2001:db8::1'), 8);
  t.equal(await passed('2001:db8::ffff:0:0:1'), 2);
  t.equal(await passed('2001:db8:0:1::1'), 8);
});

t.test('the eleventh SYN is dropped and what is established goes on', skip, async (t) => {
  const filter = tryOut(t, ['--syn-cap', '10', '--syn-window-ms', LONG]);
  for (const from of ['10.0.0.1', '2001:db8::1']) {
    const syns = await filter.packet(frame({ from, payload: SYN }), 30);
    t.same(syns.counters, { 'passed.judged': 10, 'dropped.synCap': 20, 'noted.event': 1 }, from);
    const acks = await filter.packet(frame({ from, payload: ACK }), 500);
    t.same(acks.counters, { 'passed.judged': 500 }, from);
  }
});

t.test('a cap of 0 is no cap', skip, async (t) => {
  const filter = tryOut(t, ['--syn-cap', '0', '--packet-cap', '0']);
  const { counters } = await filter.packet(frame({ from: '10.0.0.1' }), 100_000);
  t.same(counters, { 'passed.judged': 100_000 });
});

t.test('two CPUs at one source let exactly the cap pass', wired, async (t) => {
  const here = place(t);
  const caps = ['--packet-cap', '100000', '--syn-cap', '500'];
  const windows = ['--packet-window-ms', LONG, '--syn-window-ms', LONG];
  here.run('attach', ['--mode', 'driver', ...caps, ...windows]);
  const each = 400_000;
  const runs = [here.start('test-run'), here.start('test-run'), here.start('test-run')];
  const hex = frame({ from: '10.0.0.1', payload: SYN }).toString('hex');
  const acks = frame({ from: '10.0.0.1', payload: ACK }).toString('hex');
  for (const { child } of runs) {
    child.stdin!.write(`${JSON.stringify({ op: 'packet', hex, repeat: each / 100 })}\n`);
    child.stdin!.write(`${JSON.stringify({ op: 'packet', hex: acks, repeat: each })}\n`);
  }
  t.ok(await until(() => runs.every(({ answers }) => answers.length === 2), 20_000), 'all packets were sent');
  t.equal(here.counter('dropped.synCap'), (runs.length * each) / 100 - 500, 'SYNs');
  t.equal(here.counter('passed.judged'), 100_000, 'packets that passed');
  t.equal(here.counter('dropped.packetCap'), runs.length * each - (100_000 - 500), 'packets dropped');
});

t.test('a source that crosses a cap is told of once', wired, async (t) => {
  const here = place(t);
  const caps = ['--packet-cap', '20', '--packet-window-ms', '50', '--syn-cap', '10', '--syn-window-ms', '50'];
  here.run('attach', ['--mode', 'driver', ...caps]);
  const { child, answers } = here.start('events');
  const send = (from: string, payload: Buffer, repeat: number) => {
    here.feed('test-run', [{ op: 'packet', hex: frame({ from, payload }).toString('hex'), repeat }]);
  };
  send('10.0.0.1', SYN, 10);
  send('10.0.0.2', SYN, 11);
  await sleep(100);
  send('10.0.0.2', SYN, 5000);
  send('2001:db8:1:2::3', ACK, 5000);
  t.ok(await until(() => answers.length === 2, 10_000), 'two events');
  const [syn, packet] = answers;
  t.match(syn, { event: 'capCrossed', interface: 'near', dryRun: false });
  t.match(syn, { cap: 'syn', net: '10.0.0.2/32', limit: 10 });
  t.ok(Math.abs(Number(syn?.atMs) - Date.now()) < 60_000, 'with its time');
  t.match(packet, { cap: 'packet', net: '2001:db8:1:2::/64', limit: 20 });
  const before = here.counter('noted.event');
  t.equal(before, 2, 'none for a crossing soon after');
  here.run('config', ['--event-quiet-s', '0']);
  await sleep(100);
  send('10.0.0.2', SYN, 11);
  t.ok(await until(() => answers.length === 3, 10_000), 'unless asked for');
  const left = new Promise((resolve) => child.once('exit', resolve));
  here.run('detach');
  t.equal(await left, 3, 'the reader ends with the filter');
});

t.test('a flood of sources cannot flood the events', wired, async (t) => {
  const here = place(t);
  const caps = ['--packet-cap', '1', '--packet-window-ms', LONG, '--events-per-second', '7'];
  here.run('attach', ['--mode', 'driver', ...caps]);
  const flood = (count: number, group: number) => {
    const lines = Array.from({ length: count }, (_, index) => {
      const from = `10.${group}.${index >> 8}.${index & 255}`;
      return { op: 'packet', hex: frame({ from, payload: ACK }).toString('hex'), repeat: 2 };
    });
    here.feed('test-run', lines);
  };
  flood(500, 1);
  const told = here.counter('noted.event');
  t.ok(told >= 7, `${told} events of 500 crossings`);
  t.equal(here.counter('noted.eventLimited'), 500 - told, 'the others are counted');
  here.run('config', ['--events-per-second', '100000']);
  flood(8000, 2);
  const lost = here.counter('noted.eventLost');
  t.ok(lost > 0, 'a buffer that nobody reads is full some time');
  t.equal(
    here.counter('noted.event') + lost + here.counter('noted.eventLimited'),
    8500,
    'and that is counted',
  );
  t.equal(here.counter('dropped.packetCap'), 8500, 'every second packet is dropped all the same');
});
