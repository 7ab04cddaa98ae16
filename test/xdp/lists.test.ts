/** The lists of the XDP filter: commits, expiry in the kernel, full lists, refusals, hostile lines. */
import { setTimeout as sleep } from 'node:timers/promises';
import fc from 'fast-check';
import t from 'tap';
import { ACK, frame } from './frames.js';
import { filterMissing, tryOut, type TryOut } from './try-out.js';

const skip = { skip: filterMissing };
const UNCAPPED = ['--packet-cap', '0', '--syn-cap', '0'];

async function verdict(filter: TryOut, from: string): Promise<string> {
  return (await filter.packet(frame({ from, payload: ACK }))).verdict;
}

/** Verdicts by source, as `drop` and `pass`. */
async function verdicts(filter: TryOut, sources: readonly string[]): Promise<string[]> {
  const found: string[] = [];
  for (const from of sources) found.push(await verdict(filter, from));
  return found;
}

t.test('a commit puts its lists in the place of those before', skip, async (t) => {
  const filter = tryOut(t, UNCAPPED);
  const sources = ['203.0.113.1', '198.51.100.1', '2001:db8:1::1', '2001:db8:2::1'];
  const first = await filter.commit([{ net: '203.0.113.77/24' }, { net: '2001:db8:1::/64' }], [], 7);
  t.match(first, { ok: true, generation: 7, bans: 2, allows: 0, removed: 0, leftOut: 0, refused: 0 });
  t.same(await verdicts(filter, sources), ['drop', 'pass', 'drop', 'pass']);
  const second = await filter.commit([{ net: '198.51.100.1' }, { net: '2001:db8:2::/56' }], [], 3);
  t.match(second, { ok: true, generation: 3, bans: 2, removed: 2 }, 'the number need not grow');
  t.same(await verdicts(filter, sources), ['pass', 'drop', 'pass', 'drop']);
  t.match(await filter.commit([]), { ok: true, bans: 0, removed: 2 }, 'an empty list lifts all');
  t.same(await verdicts(filter, sources), ['pass', 'pass', 'pass', 'pass']);
});

t.test('without a commit nothing changes', skip, async (t) => {
  const filter = tryOut(t, UNCAPPED);
  const held = async (name: string) => {
    t.same(await verdicts(filter, ['203.0.113.1', '198.51.100.1']), ['drop', 'pass'], name);
  };
  await filter.commit([{ net: '203.0.113.0/24' }]);
  filter.send({ op: 'begin', generation: 2 });
  filter.send({ op: 'ban', net: '198.51.100.1' });
  await held('staged entries are not in force');
  t.match(await filter.ask({ op: 'abort' }), { ok: true });
  await held('abort');
  filter.send({ op: 'begin', generation: 3 });
  filter.send({ op: 'ban', net: '198.51.100.1' });
  filter.send({ op: 'begin', generation: 4 });
  filter.send({ op: 'ban', net: '203.0.113.0/24' });
  t.match(await filter.ask({ op: 'commit' }), { ok: true, bans: 1 }, 'a second begin forgets the first');
  await held('begin twice');
  filter.send({ op: 'begin', generation: 5 });
  t.match(await filter.ask('{"op":"ban","net":"198.51.1'), { ok: false }, 'half a line');
  t.match(await filter.ask({ op: 'commit' }), { ok: false, error: /nothing was changed/ });
  await held('a list with a line that could not be read');
  t.match(await filter.ask({ op: 'commit' }), { ok: false, error: /without begin/ });
  filter.send({ op: 'begin', generation: 6 });
  t.equal(await filter.end(), 2, 'the end of input before commit is an error');
  t.match(await filter.next(), { ok: false, error: /ended before commit/ });
});

t.test('single changes act at once and stay until the next commit', skip, async (t) => {
  const filter = tryOut(t, UNCAPPED);
  await filter.commit([{ net: '203.0.113.0/24' }]);
  t.match(await filter.ask({ op: 'ban', net: '10.1.2.3' }), {
    ok: true,
    net: '10.1.2.3/32',
    replaced: false,
  });
  t.match(await filter.ask({ op: 'ban', net: '::ffff:10.1.2.4' }), { ok: true, net: '10.1.2.4/32' });
  t.match(await filter.ask({ op: 'ban', net: '2001:db8::5' }), { ok: true, net: '2001:db8::5/128' });
  t.match(await filter.ask({ op: 'allow', net: '203.0.113.9' }), { ok: true });
  const sources = ['10.1.2.3', '10.1.2.4', '2001:db8::5', '2001:db8::6', '203.0.113.9', '203.0.113.8'];
  t.same(await verdicts(filter, sources), ['drop', 'drop', 'drop', 'pass', 'pass', 'drop']);
  t.match(await filter.ask({ op: 'unban', net: '10.1.2.3' }), { ok: true, found: true });
  t.match(await filter.ask({ op: 'unban', net: '10.1.2.3' }), { ok: true, found: false });
  t.match(await filter.ask({ op: 'unallow', net: '203.0.113.9' }), { ok: true, found: true });
  t.same(await verdicts(filter, sources), ['pass', 'drop', 'drop', 'pass', 'drop', 'drop']);
  t.match(await filter.commit([{ net: '203.0.113.0/24' }]), { removed: 2 });
  t.same(await verdicts(filter, sources), ['pass', 'pass', 'pass', 'pass', 'drop', 'drop']);
});

t.test('a ban ends in the kernel at its time', skip, async (t) => {
  const filter = tryOut(t, UNCAPPED);
  await filter.commit([]);
  const until = Date.now() + 1000;
  const nets = ['10.1.1.1', '10.2.0.0/16', '2001:db8:1::/64', '2001:db8:2::/48'];
  const bans = nets.map((net) => ({ net, until }));
  const commit = await filter.commit([...bans, { net: '10.3.3.3', until: until - 5000 }]);
  if (Date.now() < until) t.match(commit, { bans: 4, expired: 1 });
  const sources = ['10.1.1.1', '10.2.9.9', '2001:db8:1::9', '2001:db8:2:3::9'];
  const before = await verdicts(filter, sources);
  if (Date.now() < until) t.same(before, ['drop', 'drop', 'drop', 'drop']);
  await sleep(until - Date.now() + 50);
  t.same(await verdicts(filter, sources), ['pass', 'pass', 'pass', 'pass']);
  const late = await filter.packet(frame({ from: '10.1.1.1', payload: ACK }));
  t.same(late.counters, { 'passed.judged': 1, 'noted.expired': 1 }, 'and is counted as expired');
  t.match(await filter.ask({ op: 'ban', net: '10.4.4.4', until: 1 }), { ok: false, error: /over already/ });
  await filter.ask({ op: 'ban', net: '10.5.5.5', until: Number.MAX_SAFE_INTEGER });
  t.equal(await verdict(filter, '10.5.5.5'), 'drop', 'the end of time is no end');
});

t.test('an entry that has expired hides no shorter prefix in force', skip, async (t) => {
  const filter = tryOut(t, UNCAPPED);
  await filter.commit([]);
  const until = Date.now() + 500;
  const inner = Array.from({ length: 24 }, (_, index) => ({ net: `203.0.113.9/${9 + index}`, until }));
  await filter.commit([{ net: '203.0.0.0/8' }, ...inner], [{ net: '203.0.113.9', until }]);
  const before = await verdict(filter, '203.0.113.9');
  if (Date.now() < until) t.equal(before, 'pass', 'allowed for a while');
  await sleep(until - Date.now() + 50);
  t.same(await verdicts(filter, ['203.0.113.9', '203.9.9.9']), ['drop', 'drop']);
});

t.test('a full list keeps the most severe entries and counts the others', skip, async (t) => {
  const filter = tryOut(t, [...UNCAPPED, '--bans', '4']);
  for (const kind of ['exact', 'prefix'] as const) {
    const net = (index: number) => (kind === 'exact' ? `10.0.0.${index}` : `10.${index}.0.0/16`);
    const from = (index: number) => (kind === 'exact' ? `10.0.0.${index}` : `10.${index}.5.5`);
    const old = [1, 2, 3, 4].map((index) => ({ net: net(index), severity: 10 * index }));
    await filter.commit(old);
    const next = [5, 6, 7, 8, 9, 10].map((index) => ({ net: net(index), severity: 10 * index }));
    t.match(await filter.commit(next), { ok: true, bans: 4, leftOut: 2 }, `${kind}: six where four fit`);
    const all = Array.from({ length: 10 }, (_, index) => from(index + 1));
    const kept = [...Array<string>(6).fill('pass'), ...Array<string>(4).fill('drop')];
    t.same(await verdicts(filter, all), kept, `${kind}: the most severe are in force`);
    const weak = await filter.ask({ op: 'ban', net: net(1), severity: 69 });
    t.match(weak, { ok: false, error: /full/ }, `${kind}: a less severe one finds no room`);
    const strong = await filter.ask({ op: 'ban', net: net(1), severity: 71 });
    t.match(
      strong,
      { ok: true, replaced: true },
      `${kind}: a more severe one takes the least severe's place`,
    );
    t.same(await verdicts(filter, [from(1), from(7), from(8)]), ['drop', 'pass', 'drop'], kind);
    const same = await filter.ask({ op: 'ban', net: net(8), severity: 80 });
    t.match(same, { ok: true, replaced: false }, `${kind}: one that is there is refreshed`);
    await filter.commit([]);
  }
});

t.test('networks that must not be listed are refused and the rest is committed', skip, async (t) => {
  const filter = tryOut(t, UNCAPPED);
  const refused = [
    ['0.0.0.0/0', /too wide/],
    ['::/0', /too wide/],
    ['10.0.0.0/7', /too wide/],
    ['2001::/18', /too wide/],
    ['::ffff:0:0/96', /too wide/],
    ['127.0.0.1', /own addresses/],
    ['0.1.2.3', /own addresses/],
    ['fe80::1', /link-local/],
    ['169.254.1.1', /link-local/],
    ['169.0.0.0/8', /link-local/],
    ['::1', /own addresses/],
    ['::/64', /own addresses/],
    ['::a00:1', /own addresses/],
    ['224.0.0.1', /multicast/],
    ['239.255.255.0/24', /multicast/],
    ['255.255.255.255', /broadcast/],
    ['ff02::1', /multicast/],
    ['ff00::/19', /multicast/],
    ['203.0.113.0/33', /prefix length/],
    ['203.0.113.0/-1', /prefix length/],
    ['203.0.113.0/', /prefix length/],
    ['203.0.113.0/24x', /prefix length/],
    ['203.0.113', /not an address/],
    ['', /not an address/],
    ['2001:db8::g', /not an address/],
    ['example.com', /not an address/],
  ] as const;
  for (const [net, error] of refused) {
    t.match(await filter.ask({ op: 'ban', net }), { ok: false, error }, `${net} at once`);
    filter.send({ op: 'begin' });
    t.match(await filter.ask({ op: 'ban', net }), { ok: false, error }, `${net} in a list`);
    filter.send({ op: 'ban', net: '203.0.113.9' });
    const refusals = [{ list: 'ban', net, error }];
    t.match(await filter.ask({ op: 'commit' }), { ok: true, bans: 1, refused: 1, refusals });
  }
  for (const net of ['240.0.0.1', '168.0.0.0/8', '0:0:0:1::/64', 'fec0::1']) {
    t.match(await filter.ask({ op: 'ban', net }), { ok: true }, `${net} is next to such a network`);
  }
  t.equal(await verdict(filter, '203.0.113.9'), 'drop');
  for (const net of ['0.0.0.0/0', '::/0']) {
    t.match(await filter.ask({ op: 'allow', net }), { ok: false, error: /too wide/ }, `allow ${net}`);
  }
  for (const net of ['172.0.0.0/6', '128.0.0.0/1', 'fc00::/7', '8000::/1']) {
    t.match(await filter.ask({ op: 'allow', net }), { ok: true }, `allow ${net}`);
  }
  t.equal(await verdict(filter, '203.0.113.9'), 'pass');
});

t.test('a line that is wrong gets an answer that names it', skip, async (t) => {
  const filter = tryOut(t, UNCAPPED);
  const lines = [
    'x',
    '{',
    '[]',
    '{"op":"ban"}x',
    '{"op":"nonsense"}',
    '{"op":5}',
    '{"op":"ban","net":5}',
    '{"op":"ban","net":"10.0.0.1","net":"10.0.0.2"}',
    '{"op":"ban","net":["10.0.0.1"]}',
    '{"op":"ban","net":"10.0.0.1","until":-1}',
    '{"op":"ban","net":"10.0.0.1","until":1e999}',
    '{"op":"ban","net":"10.0.0.1","until":"tomorrow"}',
    '{"op":"ban","net":"10.0.0.1","severity":256}',
    '{"op":"ban","net":"10.0.0.1","severity":1.5}',
    '{"op":"ban","net":"10.0.0.1\\u0000"}',
    '{"op":"ban","net":"\\ud800"}',
    '{"op":"ban\u0001"}',
    `{"op":"ban","net":"${'1'.repeat(9000)}"}`,
    `{"op":"ban","${'n'.repeat(200)}":1}`,
    `{${Array.from({ length: 13 }, (_, index) => `"f${index}":1`).join()}}`,
    '{"op":"packet","hex":"0"}',
    '{"op":"packet","hex":"zz"}',
    '{"op":"packet","hex":"00"}',
    '{"op":"begin","generation":-1}',
    'y'.repeat(100_000),
  ];
  for (const [index, line] of lines.entries()) {
    const answer = await filter.ask(line);
    t.match(answer, { ok: false, line: index + 1 }, line.slice(0, 60));
    t.ok(String(answer.input).length <= 160, 'no more of the line than needed');
  }
  t.match(await filter.ask('{ "op" : "ban" , "net":"10.0.0\\u002e1" }'), { ok: true, net: '10.0.0.1/32' });
  t.equal(await filter.end(), 2);
});

t.test('no line ends the loader', skip, async (t) => {
  const filter = tryOut(t, UNCAPPED);
  const seeds = [
    '{"op":"ban","net":"203.0.113.0/24","until":1796040000000,"severity":40}',
    '{"op":"unallow","net":"2001:db8::\\u0031/64"}',
    '{"op":"nothing","a":true,"b":null,"c":-1.5e3,"d":"\\ud83d\\ude00"}',
  ];
  const change = fc.tuple(fc.nat(90), fc.nat(255), fc.nat(3));
  const mutated = fc
    .tuple(fc.constantFrom(...seeds), fc.array(change, { maxLength: 6 }))
    .map(([seed, changes]) => {
      let bytes = Buffer.from(seed);
      for (const [at, byte, gone] of changes) {
        const from = at % bytes.length;
        bytes = Buffer.concat([bytes.subarray(0, from), Buffer.from([byte]), bytes.subarray(from + gone)]);
      }
      return bytes.toString('latin1').replaceAll('\n', ' ').replaceAll('"begin"', '""');
    });
  const runs = Number(process.env.FUZZ_RUNS ?? 2000);
  const random = fc.string({ unit: 'binary', maxLength: 300 });
  const property = fc.asyncProperty(fc.oneof(mutated, random), async (line) => {
    const one = line.replace(/[\r\n]/g, ' ');
    if (one === '') return;
    const answer = await filter.ask(one);
    t.type(answer.ok, 'boolean');
  });
  await fc.assert(property, { numRuns: runs, endOnFailure: true });
  t.match(await filter.commit([{ net: '203.0.113.9' }]), { ok: true, bans: 1 }, 'it still works');
});
