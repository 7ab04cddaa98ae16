/**
 * The XDP filter in figures: time a packet by path, packets a second dropped against nftables and against
 * delivery to a socket, memory, time to commit. Needs root; `make bpf` and `make -C bpf flood` first. Packets
 * are counted by processor time, so that other processes do not matter. On a veth the sender's time holds the
 * receiving end's work; its own share is measured apart and taken off.
 */
import { execFileSync, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { Place, wireMissing } from '../test/xdp/attached.js';
import { ACK, frame, NEXT, type Packet } from '../test/xdp/frames.js';
import { BPF_FOLDER, LOADER, TryOut } from '../test/xdp/try-out.js';

const ROUNDS = Number(process.env.ROUNDS ?? 7);
const SECONDS = Number(process.env.SECONDS_EACH ?? 1);
const REPEAT = 500_000;
const FLOOD = join(BPF_FOLDER, 'build/xdp-flood');
const SOURCES = 10_000;
const PORT = 9;

const median = (values: readonly number[]) => [...values].sort((a, b) => a - b)[values.length >> 1]!;
const row = (...cells: readonly (string | number)[]) => console.log(`| ${cells.join(' | ')} |`);

// --- time a packet ---

type Path = Readonly<{ name: string; args: readonly string[]; lists: 'none' | 'full'; packet: Packet }>;

const UNCAPPED = ['--packet-cap', '0', '--syn-cap', '0'];
const CAPPED = ['--packet-cap', '16000000', '--packet-window-ms', '60000'];
const OVER = ['--packet-cap', '1', '--packet-window-ms', '60000'];
const TAGS = [0x88a8, 0x8100];
const PATHS: readonly Path[] = [
  { name: 'ARP', args: CAPPED, lists: 'full', packet: {} },
  { name: 'IPv4, on no list, no caps', args: UNCAPPED, lists: 'none', packet: { from: '10.0.0.1' } },
  { name: 'IPv4, on no list, under its cap', args: CAPPED, lists: 'full', packet: { from: '10.0.0.1' } },
  { name: 'the same behind two tags', args: CAPPED, lists: 'full', packet: { from: '10.0.0.1', tags: TAGS } },
  { name: 'IPv6, on no list, under its cap', args: CAPPED, lists: 'full', packet: { from: '2001:db8:f::1' } },
  { name: 'IPv4, allowed', args: CAPPED, lists: 'full', packet: { from: '192.0.2.9' } },
  { name: 'IPv4, address banned', args: CAPPED, lists: 'full', packet: { from: '198.18.0.9' } },
  { name: 'IPv4, network banned', args: CAPPED, lists: 'full', packet: { from: '203.0.113.9' } },
  { name: 'IPv6, /64 banned', args: CAPPED, lists: 'full', packet: { from: '2001:db8:1::9' } },
  { name: 'IPv6, /48 banned', args: CAPPED, lists: 'full', packet: { from: '2001:db8:2:9::9' } },
  { name: 'IPv4, over its cap', args: OVER, lists: 'full', packet: { from: '10.0.0.1' } },
  { name: 'IPv6, over its cap', args: OVER, lists: 'full', packet: { from: '2001:db8:f::1' } },
];

const address = (index: number) => `198.${18 + (index >> 16)}.${(index >> 8) & 255}.${index & 255}`;

/** `count` banned addresses, and a network of each kind. */
function bans(count: number): { net: string }[] {
  const nets = ['203.0.113.0/24', '2001:db8:1::/64', '2001:db8:2::/48'].map((net) => ({ net }));
  return [...Array.from({ length: count }, (_, index) => ({ net: address(index) })), ...nets];
}

async function timePaths(): Promise<void> {
  row('path (test_run, lists of 10 000 unless said; harness included)', 'ns a packet, best', 'median');
  row('---', '---', '---');
  for (const { name, args, lists, packet } of PATHS) {
    const filter = new TryOut(args);
    if (lists === 'full') await filter.commit(bans(SOURCES), [{ net: '192.0.2.9' }]);
    const bytes = frame({ payload: ACK, ...packet });
    const times: number[] = [];
    for (let round = 0; round < ROUNDS; round++) times.push((await filter.packet(bytes, REPEAT)).ns);
    await filter.end();
    row(name, Math.min(...times), median(times));
  }
}

// --- packets a second ---

type Wire = Readonly<{ place: Place; hex: string }>;

function inside(namespace: string, file: string, args: readonly string[], input = ''): string {
  const words = ['netns', 'exec', namespace, file, ...args];
  return execFileSync('ip', words, { encoding: 'utf8', input, timeout: 60_000 });
}

/** Both ends with addresses and NAPI on, and the frame that the far one sends. */
function wire(): Wire {
  const place = new Place();
  const loose = 'for file in /proc/sys/net/ipv4/conf/*/rp_filter; do echo 0 >$file; done';
  for (const [namespace, link, ip, mac] of [
    [place.near, 'near', '192.0.2.1', '02:00:00:00:00:01'],
    [place.far, 'far', '192.0.2.2', '02:00:00:00:00:0a'],
  ] as const) {
    execFileSync('ip', ['-n', namespace, 'link', 'set', link, 'address', mac]);
    execFileSync('ip', ['-n', namespace, 'addr', 'add', `${ip}/24`, 'dev', link]);
    inside(namespace, 'ethtool', ['-K', link, 'gro', 'on']);
    inside(namespace, 'sh', ['-c', loose]);
  }
  execFileSync('ip', ['-n', place.near, 'route', 'add', '198.18.0.0/16', 'via', '192.0.2.2']);
  const payload = Buffer.alloc(30);
  payload.writeUInt16BE(40_000, 0);
  payload.writeUInt16BE(PORT, 2);
  payload.writeUInt16BE(payload.length, 4);
  const bytes = frame({ from: '198.18.0.0', protocol: NEXT.udp, payload });
  return { place, hex: bytes.toString('hex') };
}

type Sent = Readonly<{ packets: number; cpuSeconds: number }>;

function send({ place, hex }: Wire): Sent {
  const args = ['-n', '-10', FLOOD, 'send', 'far', String(SECONDS), String(SOURCES), hex];
  return JSON.parse(inside(place.far, 'nice', args)) as Sent;
}

/** Sent a processor second to an end that takes nothing in. */
function sentAlone(on: Wire): number {
  inside(on.place.near, 'ethtool', ['-K', 'near', 'gro', 'off']);
  const { packets, cpuSeconds } = send(on);
  inside(on.place.near, 'ethtool', ['-K', 'near', 'gro', 'on']);
  return packets / cpuSeconds;
}

/** Dropped a processor second by the filter in this mode, by what this counter says. */
function dropped(on: Wire, mode: string, by: 'banned' | 'packetCap'): number {
  const { place } = on;
  const caps = by === 'banned' ? UNCAPPED : OVER;
  const { code, stderr } = place.run('attach', ['--mode', mode, ...caps]);
  if (code !== 0) throw new Error(stderr);
  if (by === 'banned') place.feed('sync', [{ op: 'begin' }, ...bans(SOURCES).map(ban), { op: 'commit' }]);
  const { cpuSeconds } = send(on);
  const count = place.counter(`dropped.${by}`);
  place.run('detach');
  return count / cpuSeconds;
}

const ban = (entry: { net: string }) => ({ op: 'ban', ...entry });

/** Dropped a processor second by a set of nftables at this hook. */
function nftables(on: Wire, table: string, hook: string): number {
  const elements = Array.from({ length: SOURCES }, (_, index) => address(index)).join(', ');
  const rules = `table ${table} {
    set banned { type ipv4_addr; elements = { ${elements} } }
    chain drops { type filter hook ${hook}; ip saddr @banned counter drop; }
  }`;
  inside(on.place.near, 'nft', ['-f', '-'], rules);
  const { cpuSeconds } = send(on);
  const listed = inside(on.place.near, 'nft', ['list', 'chain', ...table.split(' '), 'drops']);
  inside(on.place.near, 'nft', ['flush', 'ruleset']);
  return Number(/packets (\d+)/.exec(listed)?.[1]) / cpuSeconds;
}

/** Datagrams that a socket's reader gets, by the sender's and its own processor seconds. */
async function delivered(on: Wire): Promise<number> {
  const words = ['netns', 'exec', on.place.near, 'nice', '-n', '-10', FLOOD, 'sink'];
  const sink = spawn('ip', [...words, String(PORT), String(SECONDS + 1)], { stdio: ['ignore', 'pipe', 'inherit'] });
  let output = '';
  sink.stdout.on('data', (data: Buffer) => (output += data.toString()));
  await once(sink.stdout, 'data');
  const send = ['netns', 'exec', on.place.far, 'nice', '-n', '-10', FLOOD, 'send', 'far'];
  const sender = spawn('ip', [...send, String(SECONDS), String(SOURCES), on.hex]);
  let sent = '';
  sender.stdout.on('data', (data: Buffer) => (sent += data.toString()));
  await Promise.all([once(sink, 'close'), once(sender, 'close')]);
  const got = JSON.parse(output.replace('ready', '')) as Sent;
  return got.packets / (got.cpuSeconds + (JSON.parse(sent) as Sent).cpuSeconds);
}

async function compare(): Promise<void> {
  const on = wire();
  const ways: readonly (readonly [name: string, run: () => number | Promise<number>])[] = [
    ['XDP in driver mode, banned', () => dropped(on, 'driver', 'banned')],
    ['XDP in driver mode, over the cap', () => dropped(on, 'driver', 'packetCap')],
    ['XDP in generic mode, banned', () => dropped(on, 'generic', 'banned')],
    ['XDP in generic mode, over the cap', () => dropped(on, 'generic', 'packetCap')],
    ['nftables set, ingress', () => nftables(on, 'netdev t', 'ingress device near priority 0')],
    ['nftables set, prerouting', () => nftables(on, 'inet t', 'prerouting priority raw')],
    ['delivered to a socket', () => delivered(on)],
    ['sent and not taken in', () => sentAlone(on)],
  ];
  const found = ways.map((): number[] => []);
  try {
    for (let round = 0; round < ROUNDS; round++) {
      for (const [index, [, run]] of ways.entries()) found[index]!.push(await run());
    }
  } finally {
    on.place.close();
  }
  const rates = found.map(median);
  const [ingress, prerouting, socket, alone] = rates.slice(4).map((rate) => 1e9 / rate) as Four;
  const what = `${SOURCES} sources, frames of 64 bytes on veth`;
  const ratio = ['against ingress', 'prerouting', 'a socket'];
  row(what, 'packets a CPU second', 'ns a packet', 'without sending', ...ratio);
  row('---', '---', '---', '---', '---', '---', '---');
  for (const [index, [name]] of ways.slice(0, -1).entries()) {
    const whole = 1e9 / rates[index]!;
    const own = whole - alone;
    const ratios = [ingress, prerouting, socket].map((other) => ((other - alone) / own).toFixed(1));
    row(name, Math.round(rates[index]!), Math.round(whole), Math.round(own), ...ratios);
  }
  row(ways.at(-1)![0], Math.round(rates.at(-1)!), Math.round(alone), '', '', '', '');
}

type Four = [number, number, number, number];

// --- memory and commits ---

type Status = { memoryBytes: number; maps: Record<string, { bytes: number; max: number; entries?: number }> };

const mebibytes = (bytes: number) => (bytes / 2 ** 20).toFixed(1);

function commits(): void {
  const place = new Place();
  place.run('attach', ['--mode', 'generic']);
  const empty = place.run('status').answer as unknown as Status;
  row('bans', 'first commit ms', 'again, unchanged ms', 'all of it with the process ms', 'list memory MiB');
  row('---', '---', '---', '---', '---');
  for (const count of [10_000, 100_000]) {
    const lines = [{ op: 'begin' }, ...bans(count).map(ban), { op: 'commit' }];
    const input = lines.map((line) => `${JSON.stringify(line)}\n`).join('');
    const runs = Array.from({ length: Math.max(2, ROUNDS) }, () => {
      const began = performance.now();
      const words = ['netns', 'exec', place.near, LOADER, 'sync', '--iface', 'near', '--pin', place.pins];
      const { stdout } = spawnSync('ip', words, { encoding: 'utf8', input });
      return { whole: performance.now() - began, took: (JSON.parse(stdout) as { tookMs: number }).tookMs };
    });
    const { maps } = place.run('status').answer as unknown as Status;
    const lists = Object.entries(maps).filter(([name]) => name.startsWith('ban'));
    const memory = mebibytes(lists.reduce((sum, [, { bytes }]) => sum + bytes, 0));
    const again = Math.min(...runs.slice(1).map(({ took }) => took));
    const whole = Math.min(...runs.map(({ whole }) => whole));
    row(count, runs[0]!.took.toFixed(0), again.toFixed(0), whole.toFixed(0), memory);
  }
  place.close();
  const sources = (name: string) => `${empty.maps[name]!.max} in ${mebibytes(empty.maps[name]!.bytes)} MiB`;
  const most = ['sources4', 'sources6', 'ban4', 'ban6'].map((name) => `${name} ${sources(name)}`);
  console.log(`\nAll maps, lists empty: ${mebibytes(empty.memoryBytes)} MiB; of it taken beforehand for`);
  console.log(`${most.join(', ')}.`);
}

if (wireMissing !== false) {
  console.error(`The XDP filter was not measured: ${wireMissing}.`);
  process.exitCode = 1;
} else {
  console.log(`Linux ${execFileSync('uname', ['-r'], { encoding: 'utf8' }).trim()}, ${ROUNDS} rounds in turn.\n`);
  await timePaths();
  console.log();
  await compare();
  console.log();
  commits();
}
