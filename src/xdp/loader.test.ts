/** The errands of the loader against a stand-in that answers as bpf/README.md says. */
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Test } from 'tap';
import t from 'tap';
import { type Fault } from '../core/errors.js';
import { FIXED_SETTINGS, type KernelSettings } from './answers.js';
import { FOREVER_MS } from './ban-lines.js';
import { createLoader, type Loader, type LoaderOptions } from './loader.js';

const SETTINGS: KernelSettings = {
  dryRun: false,
  packetsPerSecond: 100,
  synPerSecond: 10,
  deepVlan: 'drop',
  management: ['10.0.0.0/8'],
  ...FIXED_SETTINGS,
};
const CONFIG = {
  ...{ packetCap: 100, packetWindowMs: 1000, synCap: 10, synWindowMs: 1000, dryRun: false, deepVlan: 'drop' },
  ...{ eventsPerSecond: 100, eventQuietSeconds: 10, management: ['10.0.0.0/8'] },
};
const STATUS = {
  ok: true,
  attached: true,
  mode: 'driver',
  linkId: 12,
  config: CONFIG,
  lists: { generation: 4, committedMs: 0, replaced: 1, leftOut: 2, refused: 3 },
  counters: {
    passed: { judged: { packets: 9, bytes: 900 } },
    dropped: { banned: { packets: 1, bytes: 60 } },
  },
  maps: {
    ...{ ban4: { entries: 3 }, ban6: { entries: 1 }, ban_net4: { entries: 2 }, ban_net6: { entries: 0 } },
    ...{ allow4: { entries: 5 }, allow_net6: { entries: 1 }, management4: { entries: 1 }, events: {} },
  },
  memoryBytes: 4096,
};
const NOT_ATTACHED = {
  exit: 3,
  out: { ok: false, error: 'NOT_ATTACHED', message: 'no filter', remedy: 'attach' },
};

const BUSY = { exit: 4, out: { ok: false, error: 'BUSY', message: 'it has a filter', remedy: 'upgrade' } };

type Reply = Readonly<{ exit?: number; out?: unknown }>;

/** Each command answers what its list says next (the last one again and again); calls are written down. */
function bench(
  t: Test,
  replies: Readonly<Record<string, readonly Reply[]>>,
  change: Partial<LoaderOptions> = {},
) {
  const folder = mkdtempSync(join(tmpdir(), 'tidegate-loader-'));
  t.teardown(() => rmSync(folder, { recursive: true, force: true }));
  const file = join(folder, 'loader');
  for (const [command, list] of Object.entries(replies)) {
    list.forEach(({ out, exit = 0 }, nth) => {
      writeFileSync(
        join(folder, `${command}.${nth}.out`),
        out === undefined ? '' : `${JSON.stringify(out)}\n`,
      );
      writeFileSync(join(folder, `${command}.${nth}.exit`), String(exit));
    });
  }
  const script = `#!/bin/sh
cd ${folder} && touch calls
n=$(grep -c "^$1 " calls)
echo "$*" >>calls
[ "$1" != sync ] || cat >input
while [ "$n" -gt 0 ] && [ ! -e "$1.$n.out" ]; do n=$((n - 1)); done
[ -e "$1.$n.out" ] || exit 0
cat "$1.$n.out"
exit "$(cat "$1.$n.exit")"
`;
  writeFileSync(file, script, { mode: 0o755 });
  const told: string[] = [];
  const loader: Loader = createLoader({
    file,
    tell: (message, fields) => void told.push(`${message} ${JSON.stringify(fields)}`),
    timeoutMs: 20_000,
    interface: 'eth0',
    pin: '/pins',
    mode: 'driver',
    entries: 50,
    settings: SETTINGS,
    ...change,
  });
  const lines = (name: string): string[] => readFileSync(join(folder, name), 'utf8').trimEnd().split('\n');
  return { loader, folder, told, calls: () => lines('calls').map((line) => line.split(' ')[0]), lines };
}

const faultOf = (work: Promise<unknown>): Promise<Fault> =>
  work.then(
    () => Promise.reject(new Error('it did not fail')),
    (error: unknown) => error as Fault,
  );

t.test('the status is read: settings, list sizes over all maps, counters', async (t) => {
  const { loader } = bench(t, { status: [{ out: STATUS }] });
  t.same(await loader.status(), {
    attached: true,
    mode: 'driver',
    linkId: 12,
    settings: SETTINGS,
    ...{ generation: 4, replaced: 1, leftOut: 2, refused: 3 },
    ...{ bans: 6, allowed: 6, management: 1, memoryBytes: 4096 },
    counters: [
      { group: 'passed', name: 'judged', packets: 9, bytes: 900 },
      { group: 'dropped', name: 'banned', packets: 1, bytes: 60 },
    ],
  });
});

t.test('what is not attached is attached, in the mode asked for', async (t) => {
  const { loader, lines, calls } = bench(t, { status: [NOT_ATTACHED, { out: STATUS }] });
  t.equal((await loader.ensure()).mode, 'driver');
  t.same(calls(), ['status', 'attach', 'status']);
  t.equal(
    lines('calls')[1],
    'attach --iface eth0 --pin /pins --mode driver --bans 50 --packet-cap 100 --packet-window-ms 1000 ' +
      '--syn-cap 10 --syn-window-ms 1000 --dry-run off --deep-vlan drop ' +
      '--events-per-second 100 --event-quiet-s 10 --management 10.0.0.0/8',
  );
});

t.test('what is attached stays as it is, save settings that changed', async (t) => {
  const same = bench(t, { status: [{ out: STATUS }] });
  await same.loader.ensure();
  t.same(same.calls(), ['status']);
  t.same(same.told, []);
  const settings = { ...SETTINGS, synPerSecond: 20, management: [] };
  const other = bench(t, { status: [{ out: STATUS }] }, { settings });
  await other.loader.ensure();
  t.same(other.calls(), ['status', 'config', 'status']);
  t.match(other.lines('calls')[1], /--syn-cap 20 .*--management none$/);
  t.match(other.told[0], /synPerSecond: 10 → 20.*management: 10\.0\.0\.0\/8 → /);
});

t.test('any setting that somebody else changed is set right and told', async (t) => {
  for (const [change, says] of [
    [{ packetWindowMs: 1 }, 'packetWindowMs: 1 → 1000'],
    [{ synWindowMs: 5 }, 'synWindowMs: 5 → 1000'],
    [{ deepVlan: 'pass' }, 'deepVlan: pass → drop'],
    [{ eventsPerSecond: 0 }, 'eventsPerSecond: 0 → 100'],
    [{ eventQuietSeconds: 1 }, 'eventQuietSeconds: 1 → 10'],
    [{ dryRun: true }, 'dryRun: true → false'],
    [{ packetCap: 1 }, 'packetsPerSecond: 1 → 100'],
  ] as const) {
    const out = { ...STATUS, config: { ...CONFIG, ...change } };
    const { loader, calls, told } = bench(t, { status: [{ out }, { out: STATUS }] });
    await loader.ensure();
    t.same(calls(), ['status', 'config', 'status']);
    t.match(told[0], says);
  }
});

t.test('another mode is refused, never changed silently', async (t) => {
  const { loader, calls } = bench(t, { status: [{ out: { ...STATUS, mode: 'generic' } }] });
  const fault = await faultOf(loader.ensure());
  t.equal(fault.code, 'XDP_OTHER_MODE');
  t.match(fault.message, 'eth0 is attached in mode generic, the config says driver');
  t.same(calls(), ['status']);
});

t.test('where another interface has the name now, the filter is attached to that one, told aloud', async (t) => {
  const away = { out: { ...STATUS, attached: false, place: 'renamed', presentName: 'old0' } };
  const moved = bench(t, { status: [away, { out: STATUS }] });
  await moved.loader.ensure();
  t.same(moved.calls(), ['status', 'attach', 'status']);
  t.match(moved.told[0], /^eth0 is not the interface that the filter is on; .*"renamedTo":"old0"/);
  const none = { exit: 2, out: { ok: false, error: 'INPUT', message: 'there is no interface', remedy: 'look' } };
  const gone = bench(t, { status: [away], attach: [none] });
  t.equal((await faultOf(gone.loader.ensure())).code, 'XDP_LOADER_FAILED');
  t.notOk(gone.calls().includes('detach'), 'without a new one it stays where it is');
});

t.test('a filter that somebody else attached meanwhile is taken over, never taken off', async (t) => {
  const faster = bench(t, { status: [NOT_ATTACHED, { out: STATUS }], attach: [BUSY] });
  await faster.loader.ensure();
  t.same(faster.calls(), ['status', 'attach', 'status', 'status']);
  const foreign = bench(t, { status: [NOT_ATTACHED], attach: [BUSY] });
  const fault = await faultOf(foreign.loader.ensure());
  t.match(fault, { code: 'XDP_LOADER_FAILED', remedy: 'upgrade' }, "somebody else's program stays");
  t.same(foreign.calls(), ['status', 'attach', 'status']);
});

t.test('the lists are read: what is in force, of each kind', async (t) => {
  const entry = { list: 'ban', net: '192.0.2.1/32', until: 5, severity: 3, generation: 1, inForce: true };
  const line = (change: object): string => JSON.stringify({ ...entry, ...change });
  const out = [line({}), line({ inForce: false }), line({ list: 'allow', until: null })].join('\n');
  const { loader, folder } = bench(t, { list: [{ out: {} }] });
  writeFileSync(join(folder, 'list.0.out'), `${out}\n`);
  t.same(await loader.list(), [
    { list: 'ban', net: '192.0.2.1/32', untilMs: 5, severity: 3 },
    { list: 'allow', net: '192.0.2.1/32', untilMs: Infinity, severity: 3 },
  ]);
  writeFileSync(join(folder, 'list.0.out'), out.slice(0, -1));
  t.equal((await faultOf(loader.list())).code, 'XDP_LOADER_ANSWER', 'cut off');
});

t.test('lists go over as begin, entries, commit', async (t) => {
  const commit = { ok: true, op: 'commit', generation: 5, bans: 2, allows: 1, leftOut: 0, refused: 1 };
  const { loader, lines } = bench(t, { sync: [{ out: commit, exit: 2 }] });
  const bans = [
    { net: '203.0.113.0/24', untilMs: 1234.6, severity: 3 },
    { net: '2001:db8::/64', untilMs: Number.MAX_VALUE, severity: 10 },
  ];
  const done = await loader.sync({ generation: 5, bans, allowed: ['203.0.113.9'] });
  t.same(done, { bans: 2, allowed: 1, leftOut: 0, refused: 1, named: [] }, 'a refused line spoils nothing');
  t.same(lines('input'), [
    '{"op":"begin","generation":5}',
    '{"op":"allow","net":"203.0.113.9"}',
    '{"op":"ban","net":"203.0.113.0/24","until":1234,"severity":3}',
    `{"op":"ban","net":"2001:db8::/64","until":${FOREVER_MS},"severity":10}`,
    '{"op":"commit"}',
  ]);
});

t.test('what the loader refused is named', async (t) => {
  const refusals = [{ list: 'ban', net: '::1', error: 'this machine' }];
  const counts = { bans: 0, allows: 0, leftOut: 0, refused: 1 };
  const commit = { ok: true, op: 'commit', generation: 5, ...counts, refusals };
  const { loader } = bench(t, { sync: [{ out: commit, exit: 2 }] });
  t.same((await loader.sync({ generation: 5, bans: [], allowed: [] })).named, ['ban ::1 (this machine)']);
});

t.test('no commit of this generation, no success', async (t) => {
  const lists = { generation: 5, bans: [], allowed: [] };
  const other = { ok: true, op: 'commit', generation: 4, bans: 0, allows: 0, leftOut: 0, refused: 0 };
  for (const [name, reply] of [
    ['silence', {}],
    ['another generation', { out: other }],
    ['a complaint', { out: { ok: false, line: 3, error: 'the line is too long', input: '' }, exit: 2 }],
  ] as const) {
    const fault = await faultOf(bench(t, { sync: [reply] }).loader.sync(lists));
    t.equal(fault.code, 'XDP_LOADER_FAILED', name);
  }
});

t.test('rights that are missing and answers of another version have faults of their own', async (t) => {
  const rights = {
    exit: 6,
    out: { ok: false, error: 'RIGHTS', message: 'not permitted', remedy: 'run as root' },
  };
  t.equal((await faultOf(bench(t, { status: [rights] }).loader.status())).code, 'XDP_RIGHTS');
  for (const out of [{ ok: true }, 'words', { ...STATUS, mode: 'offload' }]) {
    const fault = await faultOf(bench(t, { status: [{ out }] }).loader.status());
    t.equal(fault.code, 'XDP_LOADER_ANSWER');
  }
});

t.test('taking off what is not there is no error', async (t) => {
  t.equal(await bench(t, { detach: [NOT_ATTACHED] }).loader.detach(), false);
  t.equal(await bench(t, { detach: [{ out: { ok: true } }] }).loader.detach(), true);
});
