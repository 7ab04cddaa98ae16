/** The companion as its command runs it, on a real interface: what it takes over, refuses and leaves. */
import { execFileSync } from 'node:child_process';
import { renameSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import t, { type Test } from 'tap';
import { COMPARE_EVERY } from '../../src/xdp/agent.js';
import { Running, tidegate, until } from './agent-process.js';
import {
  GATE4,
  INTERFACE,
  loaderOn,
  OFFICE,
  openWire,
  packets,
  STRANGERS,
  whyNot,
  type Wire,
} from './wire.js';

const UDP = 9000;
const [BAD, GOOD, BELOW, ABOVE, FAR] = STRANGERS;
const skip = whyNot();
/** Each has a wire of its own, and waits most of its time. */
t.jobs = 2;
const real = { skip, buffered: true };

type Bench = Readonly<{ wire: Wire; config: string; metrics: () => Promise<string> }>;

/** A wire with a config, an allowlist (GOOD) and a file of bans beside it. */
async function bench(t: Test, xdp: Readonly<Record<string, unknown>> = {}): Promise<Bench> {
  const wire = await openWire(t);
  await wire.gate.ask({ what: 'listenUdp', address: GATE4, port: UDP });
  const config = join(wire.folder, 'gate.yaml');
  writeFileSync(join(wire.folder, 'allow.txt'), `${GOOD}\n`);
  const section = {
    interface: INTERFACE,
    mode: 'driver',
    pin: wire.pin,
    management: [OFFICE],
    every: '300ms',
    bans: 'bans.jsonl',
    listen: '127.0.0.1:9093',
    ...xdp,
  };
  const tree = {
    sites: [{ name: 'shop', hosts: ['*'], upstreams: ['http://127.0.0.1:1'] }],
    reputation: { allowlist: 'allow.txt' },
    xdp: section,
  };
  writeFileSync(config, JSON.stringify(tree));
  const metrics = (): Promise<string> =>
    wire.gate.ask({ what: 'text', to: '127.0.0.1', port: 9093, path: '/metrics', ms: 5000 });
  return { wire, config, metrics };
}

function ban({ wire }: Bench, ...lines: readonly (string | Readonly<Record<string, unknown>>)[]): void {
  const text = lines.map((line) => (typeof line === 'string' ? line : JSON.stringify(line))).join('\n');
  writeFileSync(join(wire.folder, 'draft'), `${text}\n{"end":${lines.length}}\n`);
  renameSync(join(wire.folder, 'draft'), join(wire.folder, 'bans.jsonl'));
}

/** Whether packets of this address come through; all ten of them or none. */
async function passes({ wire: { gate, client } }: Bench, from: string): Promise<boolean> {
  await gate.ask({ what: 'forget' });
  await client.ask({ what: 'udp', from, to: GATE4, port: UDP, count: 10 });
  for (let tries = 0; tries < 5; tries++) {
    const { [from]: count = 0 } = await gate.ask<Record<string, number>>({ what: 'received' });
    if (count === 10) return true;
    await sleep(20);
  }
  return false;
}

const valueIn = (text: string, name: string): number =>
  Number(
    text
      .split('\n')
      .find((line) => line.startsWith(`${name} `))
      ?.split(' ')[1] ?? NaN,
  );

t.test(
  'bans go into the kernel and come out of it; what must not be banned is refused',
  real,
  async (t) => {
    const at = await bench(t);
    ban(
      at,
      { net: BAD },
      { net: '0.0.0.0/0' },
      { net: '::/0' },
      { net: '203.0.113.0/24' },
      { net: '10.77.0.0/24' },
    );
    const agent = Running.tidegate(t, at.wire, ['xdp', '--config', at.config]);
    const line = await agent.says('XDP filter on');
    t.match(line, { level: 'warn', msg: `XDP filter on ${INTERFACE} in DRIVER mode`, mode: 'driver' });
    t.notOk(await passes(at, BAD), 'the banned');
    for (const from of [GOOD, BELOW, ABOVE, FAR, OFFICE]) t.ok(await passes(at, from), `not ${from}`);
    t.match(await agent.says('not for the kernel'), {
      count: 4,
      first: [
        '0.0.0.0/0 (everything)',
        '::/0 (everything)',
        '203.0.113.0/24 (allowlist)',
        /^10\.77\.0\.0\/24 \(/,
      ],
    });

    ban(at, { net: '198.51.100.0/24' });
    t.ok(await until(() => passes(at, BAD)), 'unbanned within a round');
    t.notOk(await passes(at, FAR), 'and the next one banned');

    const untilMs = Date.now() + 1500;
    ban(at, { net: FAR, until: untilMs });
    t.ok(await until(() => passes(at, FAR), 8000), 'a ban ends by itself');
    t.ok(Date.now() >= untilMs - 50, 'and not before its time');

    const text = await at.metrics();
    t.equal(valueIn(text, 'tidegate_xdp_refused_entries{reason="everything"}'), 0, 'of the last round');
    t.ok(valueIn(text, 'tidegate_xdp_packets_total{group="dropped",verdict="banned"}') >= 10);
    t.ok(valueIn(text, 'tidegate_xdp_syncs_total') >= 3);
    t.ok(valueIn(text, 'tidegate_xdp_last_sync_age_seconds') < 30);
    t.match(text, `tidegate_xdp_info{interface="${INTERFACE}",mode="driver",dry_run="false"} 1`);
  },
);

t.test('H08: killed, it leaves the filter as it was; started again, it takes over', real, async (t) => {
  const at = await bench(t, { every: '200ms' });
  ban(at, { net: BAD });
  const first = Running.tidegate(t, at.wire, ['xdp', '--config', at.config]);
  await first.says('XDP filter on');
  t.notOk(await passes(at, BAD));
  await first.end('SIGKILL');
  t.notOk(await passes(at, BAD), 'the ban holds');
  t.ok(await passes(at, OFFICE), 'operators come through');
  t.ok(await passes(at, FAR), 'everybody else too');

  ban(at, { net: FAR });
  const second = Running.tidegate(t, at.wire, ['xdp', '--config', at.config]);
  await second.says('the kernel has the bans');
  t.ok(await passes(at, BAD), 'what was lifted meanwhile');
  t.notOk(await passes(at, FAR), 'what was banned meanwhile');

  ban(at, '{"net":"203.0.113.7"', { net: FAR });
  await second.says('cannot read the bans');
  t.notOk(await passes(at, FAR), 'a damaged file empties nothing');
  ban(at, { net: FAR });
  await second.says('the kernel has the bans');
  writeFileSync(join(at.wire.folder, 'bans.jsonl'), '');
  await second.line(({ why }) => String(why).includes('it is empty'), 'an empty file');
  t.notOk(await passes(at, FAR), 'nor does an empty one');
  ban(at, { net: FAR });

  const loader = loaderOn(at.wire, 'driver');
  await loader.sync({ generation: 77, bans: [], allowed: [] });
  await second.says('are not what was handed over');
  t.ok(await until(async () => !(await passes(at, FAR))), 'what somebody took out is put back');
  t.ok(valueIn(await at.metrics(), 'tidegate_xdp_drifts_total') >= 1);

  await tamper(at);
  const swapped = await second.line(({ first }) => String(first).includes('not ours'), 'swapped entries');
  t.match(swapped, { first: [`${FAR} is missing`, /^192\.0\.2\.66(\/32)? is not ours$/] });
  t.ok(await until(async () => !(await passes(at, FAR))), 'what somebody swapped is put back');
  await second.says('settings of the filter were not those');
  const { deepVlan, packetWindowMs } = (await loader.status())!.settings;
  t.match({ deepVlan, packetWindowMs }, { deepVlan: 'drop', packetWindowMs: 1000 });

  const third = await tidegate(at.wire, 'xdp', '--config', at.config);
  t.equal(third.code, 1);
  t.match(third.stderr, `there can be one companion on ${INTERFACE}`);
  t.notOk(await passes(at, FAR), 'a second agent changes nothing');

  t.equal(await second.end('SIGTERM'), 0);
  t.ok(
    second.lines.some(({ msg }) => String(msg).includes('stays in place')),
    'and says so at the end',
  );
  t.notOk(await passes(at, FAR), 'stopped, it leaves the filter in place');
  const shown = await tidegate(at.wire, 'xdp', 'status', '--config', at.config);
  t.match(shown.stdout, `${INTERFACE}: attached in DRIVER mode`);
  const off = await tidegate(at.wire, 'xdp', 'off', '--config', at.config);
  t.equal(off.code, 0, off.stderr);
  t.ok(await passes(at, FAR), 'one command takes it off');
  t.equal((await tidegate(at.wire, 'xdp', 'status', '--config', at.config)).code, 1);
});

t.test('it needs three capabilities, no more', real, async (t) => {
  const at = await bench(t, { mode: 'generic', caps: { packetsPerSecond: 50 }, entries: 2 });
  ban(at, { net: BAD }, { net: BELOW, until: Date.now() + 600_000 }, { net: ABOVE });
  const three = '+bpf,+net_admin,+perfmon';
  const only = (caps: string): string[] => ['setpriv', '--no-new-privs', `--bounding-set=-all${caps}`];
  const agent = Running.tidegate(
    t,
    at.wire,
    ['xdp', '--config', at.config, '--detach-on-exit'],
    only(`,${three}`),
  );
  await agent.says('in GENERIC mode');
  t.notOk(await passes(at, BAD));
  t.notOk(await passes(at, ABOVE));
  t.ok(await passes(at, BELOW), 'H08: of three bans for two places the one that ends soonest gives way');
  t.match(await agent.says('not for the kernel'), { count: 1, first: [`${BELOW} (full)`] });
  await at.wire.client.ask({ what: 'udp', from: FAR, to: GATE4, port: UDP, count: 200 });
  const told = await agent.says('a source is over a cap');
  t.match(told, {
    event: {
      v: 1,
      kind: 'kernel',
      interface: INTERFACE,
      source: FAR,
      what: 'packets',
      cap: 50,
      dropped: true,
    },
  });
  t.ok((await packets(loaderOn(at.wire, 'generic'), 'dropped', 'packetCap')) > 0);

  t.equal((await tidegate(at.wire, 'xdp', 'off', '--config', at.config)).code, 0);
  await agent.says('is attached again');
  t.ok(await until(async () => !(await passes(at, BAD))), 'taken off under it, the filter is put back');
  await at.wire.client.ask({ what: 'udp', from: BELOW, to: GATE4, port: UDP, count: 200 });
  await agent.line(
    ({ event }) => (event as { source?: unknown } | undefined)?.source === BELOW,
    'told again',
  );

  t.equal(await agent.end('SIGTERM'), 0);
  t.ok(await passes(at, BAD), 'it was asked to take the filter along');

  const without = Running.tidegate(t, at.wire, ['xdp', '--config', at.config], only(''));
  await until(() => without.isOver());
  t.equal(without.child.exitCode, 1);
  t.match(without.stderr, 'CAP_BPF, CAP_NET_ADMIN and CAP_PERFMON', 'without them it says what to do');
});

/** By hand: one ban swapped for another, and other settings. */
async function tamper({ wire }: Bench): Promise<void> {
  const place = ['--iface', INTERFACE, '--pin', wire.pin];
  const run = (args: readonly string[], input = ''): void =>
    void execFileSync(wire.loaderFile, [...args], { input, stdio: ['pipe', 'ignore', 'ignore'] });
  const lines = [{ op: 'unban', net: FAR }, { op: 'ban', net: '192.0.2.66' }].map((one) => JSON.stringify(one));
  run(['sync', ...place], `${lines.join('\n')}\n`);
  run(['config', ...place, '--packet-window-ms', '1', '--deep-vlan', 'pass']);
}

t.test('an interface that takes over the name gets the filter, and it is told', real, async (t) => {
  const at = await bench(t, { every: '200ms' });
  writeFileSync(join(at.wire.folder, 'allow.txt'), `${GOOD}\n192.0.2.0/24\n2001:db8:9::9\n2001:db8:a::/48\n`);
  const hourAhead = Date.now() + 3_600_000;
  const timed = ['198.51.100.0/24', '2001:db8:1::7'].map((net) => ({ net, until: hourAhead }));
  ban(at, { net: BAD }, { net: '2001:db8:2::/48' }, ...timed);
  const agent = Running.tidegate(t, at.wire, ['xdp', '--config', at.config]);
  await agent.says('XDP filter on');
  const rounds = async (): Promise<number> => valueIn(await at.metrics(), 'tidegate_xdp_rounds_total');
  t.ok(await until(async () => (await rounds()) > 2 * COMPARE_EVERY), 'lists were compared');
  t.equal(valueIn(await at.metrics(), 'tidegate_xdp_drifts_total'), 0, 'and nothing of any kind seemed off');
  const [file, ...rest] = at.wire.atGate;
  const ip = (...args: string[]): string => execFileSync(file, [...rest, 'ip', ...args], { encoding: 'utf8' });
  ip('link', 'set', INTERFACE, 'down');
  ip('link', 'set', INTERFACE, 'name', 'old0');
  ip('link', 'add', INTERFACE, 'type', 'veth', 'peer', 'name', 'far0');
  t.match(await agent.says('is not the interface that the filter is on'), { renamedTo: 'old0' });
  t.ok(await until(() => ip('link', 'show', 'dev', INTERFACE).includes('prog/xdp')), 'it is on the new one');
  t.notMatch(ip('link', 'show', 'dev', 'old0'), 'prog/xdp', 'and no longer on the old one');
  t.ok(await until(async () => (await loaderOn(at.wire, 'driver').status())?.bans === 4), 'with its bans');
});

const full = process.env['TIDEGATE_TEST_FULL'] === '1' ? skip : 'TIDEGATE_TEST_FULL=1 runs it';

t.test('a hundred thousand bans go into the kernel at one go', { skip: full }, async (t) => {
  const at = await bench(t);
  const line = (n: number): string => `{"net":"20.${n >>> 16}.${(n >>> 8) & 255}.${n & 255}"}`;
  ban(at, ...Array.from({ length: 100_000 }, (_, n) => line(n)));
  const agent = Running.tidegate(t, at.wire, ['xdp', '--config', at.config]);
  const handed = await agent.says('the kernel has the bans');
  t.match(handed, { entries: 100_000 });
  t.comment(`${String(handed['ms'])} ms`);
  t.ok(await until(() => passes(at, BAD)), 'and it goes on');
});
