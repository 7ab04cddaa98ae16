/** H08: blind spots of a filter in the kernel, letter by letter; test/xdp has the tables behind each. */
import { setTimeout as sleep } from 'node:timers/promises';
import t from 'tap';
import { until as eventually } from '../support/case.js';
import { place, wireMissing } from '../xdp/attached.js';
import { ACK, frame, NEXT, TAG_8021AD, TAG_8021Q, type Packet } from '../xdp/frames.js';
import { filterMissing, tryOut, type TryOut } from '../xdp/try-out.js';

const skip = { skip: filterMissing };
const BANS = [{ net: '203.0.113.0/24' }, { net: '2001:db8:1::/48' }];
const IN4 = '203.0.113.200';
const IN6 = '2001:db8:1:ffff::1';

async function blocking(t: Parameters<typeof tryOut>[0], args: readonly string[] = []): Promise<TryOut> {
  const filter = tryOut(t, args);
  await filter.commit(BANS);
  return filter;
}

async function verdictOf(filter: TryOut, packet: Packet): Promise<string> {
  return (await filter.packet(frame({ payload: ACK, ...packet }))).verdict;
}

t.test('H08 (a) VLAN tags hide no source; more than eight are dropped and counted', skip, async (t) => {
  const filter = await blocking(t);
  const STACKS = [[], [TAG_8021Q], [TAG_8021Q, TAG_8021Q], [TAG_8021AD, TAG_8021Q]];
  for (const tags of [...STACKS, Array<number>(5).fill(TAG_8021Q), Array<number>(8).fill(TAG_8021Q)]) {
    t.equal(await verdictOf(filter, { tags, from: IN4 }), 'drop', `${tags.length} tags, IPv4`);
    t.equal(await verdictOf(filter, { tags, from: IN6 }), 'drop', `${tags.length} tags, IPv6`);
  }
  const nine = frame({ tags: Array<number>(9).fill(TAG_8021Q), from: IN4 });
  t.match(await filter.packet(nine), { verdict: 'drop', counters: { 'dropped.deepVlan': 1 } });
  const lax = await blocking(t, ['--deep-vlan', 'pass']);
  t.match(await lax.packet(nine), { verdict: 'pass', counters: { 'passed.deepVlan': 1 } });
});

t.test('H08 (b) fragments after the first are dropped', skip, async (t) => {
  const filter = await blocking(t);
  for (const fragment of [{ offset: 1, more: true }, { offset: 185, more: false }]) {
    t.equal(await verdictOf(filter, { from: IN4, fragment }), 'drop');
  }
});

t.test('H08 (c) IPv6 extension headers hide no source', skip, async (t) => {
  const filter = await blocking(t);
  for (const next of [NEXT.hop, NEXT.routing, NEXT.fragment, NEXT.options, NEXT.ah]) {
    const packet = { from: IN6, extensions: [{ next, bytes: 24 }] };
    t.equal(await verdictOf(filter, packet), 'drop', `header ${next}`);
  }
  const many = Array.from({ length: 12 }, () => ({ next: NEXT.options }));
  t.equal(await verdictOf(filter, { from: IN6, extensions: many }), 'drop', 'more than it walks through');
});

t.test('H08 (d) neighbours are untouched', skip, async (t) => {
  const filter = await blocking(t);
  for (const from of ['203.0.112.255', '203.0.114.0', '2001:db8:0:ffff::1', '2001:db8:2::']) {
    t.equal(await verdictOf(filter, { from }), 'pass', from);
  }
  for (const from of ['203.0.113.0', '203.0.113.255', '2001:db8:1::', '2001:db8:1:ffff:ffff:ffff:ffff:ffff']) {
    t.equal(await verdictOf(filter, { from }), 'drop', from);
  }
});

t.test('H08 (e) a full map keeps the most severe and counts the rest', skip, async (t) => {
  const filter = tryOut(t, ['--bans', '2']);
  const bans = [10, 30, 20].map((severity) => ({ net: `10.0.0.${severity}`, severity }));
  t.match(await filter.commit(bans), { ok: true, bans: 2, leftOut: 1 });
  const found: string[] = [];
  for (const last of [10, 20, 30]) found.push(await verdictOf(filter, { from: `10.0.0.${last}` }));
  t.same(found, ['pass', 'drop', 'drop']);
  t.match(await filter.ask({ op: 'ban', net: '10.0.0.40', severity: 40 }), { ok: true, replaced: true });
  t.equal(await verdictOf(filter, { from: '10.0.0.20' }), 'pass', 'the least severe gave way');
  t.equal(await verdictOf(filter, { from: '10.0.0.40' }), 'drop');
});

t.test('H08 (f) a ban ends within a second of its time, with nobody there to lift it', skip, async (t) => {
  const filter = await blocking(t);
  const until = Date.now() + 500;
  await filter.commit([{ net: '203.0.113.0/24', until }]);
  await sleep(until + 900 - Date.now());
  t.equal(await verdictOf(filter, { from: IN4 }), 'pass');
});

t.test('H08 (g) an allow entry inside a blocked network passes', skip, async (t) => {
  const filter = tryOut(t);
  await filter.commit(BANS, [{ net: '203.0.113.200' }, { net: '2001:db8:1:ffff::/64' }]);
  t.equal(await verdictOf(filter, { from: IN4 }), 'pass');
  t.equal(await verdictOf(filter, { from: IN6 }), 'pass');
  t.equal(await verdictOf(filter, { from: '203.0.113.201' }), 'drop');
});

t.test('H08 (h) when the companion is killed the filter stays, management open', { skip: wireMissing }, async (t) => {
  const here = place(t);
  here.run('attach', ['--mode', 'driver', '--management', '192.0.2.0/24']);
  const companion = here.start('sync');
  const lists = [...BANS, { net: '192.0.2.0/24' }].map((ban) => `${JSON.stringify({ op: 'ban', ...ban })}\n`);
  companion.child.stdin!.write(`{"op":"begin","generation":1}\n${lists.join('')}{"op":"commit"}\n`);
  t.ok(await eventually(() => companion.answers.length === 1), 'the lists are in force');
  const left = new Promise((resolve) => companion.child.once('exit', resolve));
  companion.child.kill('SIGKILL');
  await left;
  const lines = [IN4, IN6, '192.0.2.9'].map((from) => ({ op: 'packet', hex: frame({ from }).toString('hex') }));
  const verdicts = here.feed('test-run', lines).map(({ verdict }) => verdict);
  t.same(verdicts, ['drop', 'drop', 'pass']);
  t.match(here.run('status').answer, { attached: true });
});

t.test('H08 (i) everything is never banned, whoever asks for it', skip, async (t) => {
  const filter = tryOut(t);
  for (const net of ['0.0.0.0/0', '::/0', '0.0.0.0/1', '128.0.0.0/1', '2000::/3', '::ffff:0.0.0.0/96']) {
    t.match(await filter.ask({ op: 'ban', net }), { ok: false, error: /too wide/ }, net);
  }
  const answer = filter.commit([{ net: '0.0.0.0/0' }, { net: '203.0.113.0/24' }]);
  t.match(await answer, { ok: false }, 'the answer to the entry');
  t.match(await filter.next(), { ok: true, bans: 1, refused: 1 }, 'the rest is put into force');
  t.equal(await verdictOf(filter, { from: '198.51.100.1' }), 'pass');
  t.equal(await verdictOf(filter, { from: IN4 }), 'drop');
});
