import t from 'tap';
import type { Ban } from '../controls/ban.js';
import { COMPARE_EVERY, createAgent, type Guarded } from './agent.js';
import { FIXED_SETTINGS, type KernelStatus, type ListedEntry } from './answers.js';
import type { Handover, Loader } from './loader.js';
import { banOf } from './testing.js';

const SETTINGS = { widest: { ipv4: 8, ipv6: 17 }, ipv6Prefix: 64, entriesMax: 1000 };

const listedOf = (lists: Handover | undefined): ListedEntry[] => [
  ...(lists?.bans ?? []).map((entry) => ({ list: 'ban' as const, ...entry })),
  ...(lists?.allowed ?? []).map((net) => ({ list: 'allow' as const, net, untilMs: Infinity, severity: 5 })),
];

/** A kernel in memory, and an agent beside it. */
function bench() {
  const kernel = { bans: 0, allowed: 0, generation: 0 };
  const handed: Handover[] = [];
  const lines: string[] = [];
  const world = {
    bans: [] as Ban[] | Error,
    guarded: [] as Guarded | Error,
    broken: undefined as Error | undefined,
    syncFails: false,
    nowMs: 1000,
    steadyMs: 1000,
    /** In the place of what was handed over. */
    listed: undefined as ListedEntry[] | undefined,
    held: [] as readonly string[],
    refuses: [] as string[],
  };
  const status = (): KernelStatus => ({
    attached: true,
    mode: 'driver',
    linkId: 1,
    settings: {
      ...FIXED_SETTINGS,
      ...{ dryRun: false, packetsPerSecond: 0, synPerSecond: 0, deepVlan: 'drop', management: [] },
    },
    management: 0,
    memoryBytes: 0,
    ...{ refused: 0, replaced: 0, leftOut: 0 },
    counters: [],
    ...kernel,
  });
  const orThrow = <T>(value: T | Error): T => {
    if (value instanceof Error) throw value;
    return value;
  };
  const loader: Loader = {
    ensure: async () => orThrow(world.broken ?? status()),
    status: async () => status(),
    detach: async () => true,
    upgrade: async () => undefined,
    eventsCommand: ['true'],
    list: async () => world.listed ?? listedOf(handed.at(-1)),
    async sync(lists) {
      handed.push(lists);
      if (world.syncFails) throw new Error('killed');
      Object.assign(kernel, {
        bans: lists.bans.length,
        allowed: lists.allowed.length,
        generation: lists.generation,
      });
      return {
        bans: lists.bans.length,
        allowed: lists.allowed.length,
        leftOut: 0,
        refused: world.refuses.length,
        named: world.refuses,
      };
    },
  };
  const agent = createAgent(SETTINGS, {
    loader,
    async readBans(held) {
      world.held = held;
      return orThrow(world.bans);
    },
    steadyMs: () => world.steadyMs,
    readGuarded: async () => orThrow(world.guarded),
    clock: { nowMs: () => world.nowMs },
    log: (level, message, fields) => void lines.push(`${level} ${message} ${JSON.stringify(fields)}`),
  });
  return { agent, kernel, handed, lines, world, last: () => handed.at(-1)?.bans.map(({ net }) => net) };
}

t.test('the first round hands over everything, the next only what changed', async (t) => {
  const { agent, world, handed, last } = bench();
  world.bans = [banOf('192.0.2.1'), banOf('192.0.2.2')];
  world.guarded = [{ net: '198.51.100.1', why: 'allowlist', spared: true }];
  t.ok(await agent.round());
  t.match(handed[0], { generation: 1, allowed: ['198.51.100.1'] });
  t.same(last(), ['192.0.2.1', '192.0.2.2']);
  t.ok(await agent.round());
  t.equal(handed.length, 1, 'nothing to do');
  world.bans = [banOf('192.0.2.2')];
  t.ok(await agent.round());
  t.same(last(), ['192.0.2.2']);
  t.equal(handed[1]?.generation, 2);
  world.guarded = [];
  t.ok(await agent.round());
  t.same(handed[2]?.allowed, [], 'a change of the allowlist alone is handed over too');
});

t.test('an empty list of bans empties the kernel, a failed read does not', async (t) => {
  const { agent, world, handed, kernel } = bench();
  world.bans = [banOf('192.0.2.1')];
  await agent.round();
  world.bans = new Error('Redis is away');
  t.notOk(await agent.round());
  t.equal(handed.length, 1);
  t.equal(kernel.bans, 1);
  t.equal(agent.stats().failures.bans, 1);
  world.guarded = [{ net: '192.0.2.1', why: 'allowlist', spared: true }];
  t.notOk(await agent.round());
  t.match(handed[1], { bans: [], allowed: ['192.0.2.1'] }, 'but the allowlist is obeyed meanwhile');
  world.guarded = [];
  world.bans = [banOf('192.0.2.1')];
  await agent.round();
  world.guarded = new Error('no allowlist');
  t.notOk(await agent.round(), 'nor does anything go out while it is unknown whom to spare');
  t.equal(agent.stats().failures.guarded, 1);
  world.guarded = [];
  world.bans = [];
  t.ok(await agent.round());
  t.equal(kernel.bans, 0);
});

t.test('started while the bans cannot be read, it keeps what the kernel holds', async (t) => {
  const { agent, world, handed, kernel } = bench();
  world.bans = new Error('Redis is away');
  world.guarded = [{ net: '198.51.100.1', why: 'allowlist', spared: true }];
  kernel.bans = 5;
  t.notOk(await agent.round());
  t.equal(handed.length, 0);
  kernel.bans = 0;
  t.notOk(await agent.round());
  t.match(handed[0], { bans: [], allowed: ['198.51.100.1'] }, 'with no bans to lose, the rest is set up');
  t.equal(agent.stats().inStepMs, 0, 'yet it is not in step');
});

t.test('a loader that fails is asked for everything again', async (t) => {
  const { agent, world, handed } = bench();
  world.bans = [banOf('192.0.2.1')];
  world.syncFails = true;
  t.notOk(await agent.round());
  world.syncFails = false;
  t.ok(await agent.round());
  t.equal(handed.length, 2);
  t.match(agent.stats(), { syncs: 1, failures: { sync: 1 } });
  world.broken = new Error('no such filter');
  t.notOk(await agent.round());
  t.equal(agent.stats().failures.kernel, 1);
});

t.test('what somebody else changed in the kernel is found and set right', async (t) => {
  const { agent, world, handed, kernel, lines } = bench();
  world.bans = [banOf('192.0.2.1'), banOf('192.0.2.2')];
  await agent.round();
  for (const [name, change] of [
    ['an entry is gone', { bans: 1 }],
    ['an entry too many', { bans: 3 }],
    ['another list was committed', { generation: 9 }],
    ['an allow entry too many', { allowed: 1 }],
  ] as const) {
    const before = handed.length;
    Object.assign(kernel, change);
    t.ok(await agent.round(), name);
    t.equal(agent.stats().drift, 1);
    t.equal(handed.length, before + 1, 'handed over again');
    await agent.round();
    t.equal(agent.stats().drift, 0, 'and in step');
  }
  t.equal(agent.stats().drifts, 4);
  t.ok(handed.at(-1)!.generation > 9, 'numbers never go back');
  t.ok(lines.some((line) => line.startsWith('warn') && line.includes('not what was handed over')));
});

t.test('an entry swapped for another is found within a few rounds, named and set right', async (t) => {
  const { agent, world, handed, kernel, lines } = bench();
  world.bans = [banOf('192.0.2.1'), banOf('192.0.2.2')];
  world.guarded = [{ net: '198.51.100.1', why: 'allowlist', spared: true }];
  await agent.round();
  const good = listedOf(handed[0]);
  for (const [name, listed, says] of [
    ['another address', [{ ...good[0]!, net: '192.0.2.66' }, ...good.slice(1)], '192.0.2.66 is not ours'],
    ['another end', [{ ...good[0]!, untilMs: 9000 }, ...good.slice(1)], '192.0.2.1 ends at another time'],
    ['another severity', [{ ...good[0]!, severity: 9 }, ...good.slice(1)], '192.0.2.1 has another severity'],
    ['ended by the clock of the kernel', good.slice(1), '192.0.2.1 is missing'],
    [
      'another one allowed',
      [...good.slice(0, 2), { ...good[2]!, net: '198.51.100.2' }],
      '198.51.100.1 is no longer',
    ],
  ] as const) {
    const before = handed.length;
    world.listed = [...listed];
    for (let rounds = 0; rounds < COMPARE_EVERY && handed.length === before; rounds++) await agent.round();
    t.equal(handed.length, before + 1, name);
    t.match(lines.findLast((line) => line.includes('not what was handed over')), says);
    world.listed = undefined;
  }
  t.equal(kernel.bans, 2);
  const calm = handed.length;
  for (let rounds = 0; rounds < 2 * COMPARE_EVERY; rounds++) await agent.round();
  t.equal(handed.length, calm, 'then it is calm');
});

t.test('a clock that was set has the ends handed over again', async (t) => {
  const { agent, world, handed, lines } = bench();
  world.bans = [banOf('192.0.2.1', { untilMs: 90_000_000 })];
  await agent.round();
  world.nowMs += 30_000;
  world.steadyMs += 30_000;
  await agent.round();
  t.equal(handed.length, 1, 'time that passes is no step');
  world.nowMs -= 10_000;
  await agent.round();
  t.equal(handed.length, 2);
  t.ok(lines.some((line) => line.includes('the clock of this machine was set') && line.includes('-10000')));
  await agent.round();
  t.equal(handed.length, 2);
});

t.test('what the kernel held before is shown to the source of bans, until the first sync', async (t) => {
  const { agent, world, kernel } = bench();
  kernel.bans = 1;
  world.listed = [{ list: 'ban', net: '192.0.2.5', untilMs: Infinity, severity: 1 }];
  world.bans = new Error('the book was lost');
  t.notOk(await agent.round());
  t.same(world.held, ['192.0.2.5']);
  t.equal(kernel.bans, 1);
  world.bans = [];
  t.ok(await agent.round());
  world.listed = undefined;
  await agent.round();
  t.same(world.held, []);
});

t.test('what the loader refused is named', async (t) => {
  const { agent, world, lines } = bench();
  world.refuses = ['::1 (loopback)'];
  t.ok(await agent.round());
  t.ok(lines.some((line) => line.startsWith('warn') && line.includes('::1 (loopback)')));
});

t.test('entries that ended are no drift, swept or not', async (t) => {
  const { agent, world, kernel } = bench();
  world.bans = [banOf('192.0.2.1', { untilMs: 2000 }), banOf('192.0.2.2')];
  await agent.round();
  world.nowMs = world.steadyMs = 2000;
  await agent.round();
  t.equal(agent.stats().drift, 0);
  t.equal(kernel.bans, 1, 'and they are taken out');
  world.bans = [banOf('192.0.2.2', { untilMs: 3000 })];
  await agent.round();
  world.nowMs = world.steadyMs = 3000;
  kernel.bans = 0;
  await agent.round();
  t.equal(agent.stats().drift, 0);
});

t.test('refused bans are counted by reason and named once', async (t) => {
  const { agent, world, lines } = bench();
  world.guarded = [{ net: '192.0.2.9', why: 'allowlist', spared: true }];
  world.bans = [banOf('0.0.0.0/0'), banOf('::/0'), banOf('192.0.2.0/24'), banOf('203.0.113.1')];
  await agent.round();
  await agent.round();
  t.same(agent.stats().refused, { everything: 2, allowlist: 1 });
  t.equal(agent.stats().wanted, 1);
  const named = lines.filter((line) => line.includes('not for the kernel'));
  t.equal(named.length, 1);
  t.match(named[0], /0\.0\.0\.0\/0 \(everything\).*192\.0\.2\.0\/24 \(allowlist\)/);
});

t.test('rounds do not overlap', async (t) => {
  const { agent, handed } = bench();
  await agent.idle();
  void agent.round();
  void agent.round();
  await agent.idle();
  t.equal(handed.length, 1);
  t.equal(agent.stats().rounds, 1);
});
