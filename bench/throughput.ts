/**
 * Requests per second, latency and processor time a request of the gate against a bare undici proxy and plain
 * nginx: the proxy alone on one core, load and origin on another, rounds in turn, medians. Other work on the
 * machine disturbs the processor time far less than the rate. Needs wrk, nginx and taskset.
 */
import { spawn, execFile, type ChildProcess } from 'node:child_process';
import { mkdtempSync, readFileSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { connect } from 'node:net';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { promisify } from 'node:util';
import { writeNginxConfig } from './nginx.js';

const run = promisify(execFile);
const ROUNDS = Number(process.env['ROUNDS'] ?? 5);
const SECONDS = Number(process.env['SECONDS_EACH'] ?? 4);
const PORTS = { origin: 19080, bare: 19081, nginx: 19082, gate: 19083, admin: 19084, quiet: 19085 };
const root = path.resolve(import.meta.dirname, import.meta.dirname.includes('/dist/') ? '../..' : '..');
const folder = mkdtempSync(path.join(tmpdir(), 'tidegate-bench-'));
const children: ChildProcess[] = [];

const GET = `wrk.headers["User-Agent"] = "Mozilla/5.0 (X11; Linux x86_64; rv:128.0) Gecko/20100101 Firefox/128.0"
wrk.headers["Accept"] = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"
wrk.headers["Accept-Language"] = "en-US,en;q=0.5"
wrk.headers["Cookie"] = "sid=0123456789abcdef; theme=dark"
-- Each request has a target of its own: the gate remembers those that it found clean.
local n = 0
request = function()
  n = n + 1
  return wrk.format(nil, "/products/" .. n .. "?page=2&sort=price")
end
`;
const POST = `${GET}wrk.method = "POST"
wrk.headers["Content-Type"] = "application/json"
wrk.headers["Origin"] = "http://app.test"
wrk.body = '${JSON.stringify(Object.fromEntries(Array.from({ length: 8 }, (_, i) => [`field${i}`, `the quick brown fox ${i} `.repeat(5)])))}'
`;

type Figures = { perSecond: number; cpuUs: number; p50Us: number; p99Us: number };
type Subject = Readonly<{ name: string; port: number; process: ChildProcess }>;

function start(core: number, command: string, args: string[], env: NodeJS.ProcessEnv = {}): ChildProcess {
  const child = spawn('taskset', ['-c', String(core), command, ...args], {
    stdio: ['ignore', 'ignore', 'inherit'],
    env: { ...process.env, ...env },
    cwd: root,
  });
  children.push(child);
  return child;
}

async function untilOpen(port: number): Promise<void> {
  for (let tries = 0; tries < 200; tries++) {
    const open = await new Promise<boolean>((resolve) => {
      const socket = connect(port, '127.0.0.1', () => {
        socket.destroy();
        resolve(true);
      });
      socket.on('error', () => resolve(false));
    });
    if (open) return;
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
  throw new Error(`nothing listens on ${port}`);
}

const toUs = (text: string): number => {
  const found = /([\d.]+)(us|ms|s)/.exec(text);
  return Number(found?.[1]) * ({ us: 1, ms: 1000, s: 1_000_000 }[found?.[2] ?? 'us'] ?? NaN);
};

/** Of the kernel's clock ticks (Linux has 100 a second on every platform that shows them). */
const TICK_US = 10_000;

/** Microseconds that a process and all below it have spent, in user and system mode (proc(5)). */
function cpuOf(pid: number): number {
  const stat = readFileSync(`/proc/${pid}/stat`, 'latin1');
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
  let us = (Number(fields[11]) + Number(fields[12])) * TICK_US;
  for (const thread of readdirSync(`/proc/${pid}/task`)) {
    const children = readFileSync(`/proc/${pid}/task/${thread}/children`, 'latin1').trim();
    if (children !== '') for (const child of children.split(' ')) us += cpuOf(Number(child));
  }
  return us;
}

async function load({ port, process: subject }: Subject, script: string, seconds: number): Promise<Figures> {
  const file = path.join(folder, 'load.lua');
  writeFileSync(file, script);
  const target = `http://127.0.0.1:${port}/`;
  const args = ['-c', '1', 'wrk', '-t1', '-c32', `-d${seconds}s`, '--latency', '-s', file, target];
  const beforeUs = cpuOf(subject.pid!);
  const { stdout } = await run('taskset', args);
  const spentUs = cpuOf(subject.pid!) - beforeUs;
  if (/Non-2xx/.test(stdout)) throw new Error(`refused under load:\n${stdout}`);
  return {
    perSecond: Number(/Requests\/sec:\s+([\d.]+)/.exec(stdout)?.[1]),
    cpuUs: spentUs / Number(/(\d+) requests in/.exec(stdout)?.[1]),
    p50Us: toUs(/^\s+50%\s+(\S+)/m.exec(stdout)?.[1] ?? ''),
    p99Us: toUs(/^\s+99%\s+(\S+)/m.exec(stdout)?.[1] ?? ''),
  };
}

const median = (values: number[]): number =>
  [...values].sort((a, b) => a - b)[Math.floor(values.length / 2)] ?? NaN;

function gateConfig(port: number, rest: string): string {
  const file = path.join(folder, `gate-${port}.yaml`);
  // All six stages as shipped; limits wide enough that none of them answers.
  writeFileSync(
    file,
    `listen: "127.0.0.1:${port}"
workers: 1
sites: [{ name: bench, hosts: ["*"], upstreams: ["http://127.0.0.1:${PORTS.origin}"] }]
limits:
  policies:
    - { name: ingress, match: { path: "/**" }, by: [ip], limit: 1000000/1s }
log: { file: ${path.join(folder, `gate-${port}.log`)} }
${rest}
`,
  );
  return file;
}

/** Origin on the load's core; the proxies on the other, where one works at a time. */
async function startAll(): Promise<Subject[]> {
  const nginx = (core: number, role: 'origin' | 'proxy', listen: number): ChildProcess => {
    const file = writeNginxConfig(folder, role, { listen, upstream: PORTS.origin });
    return start(core, 'nginx', ['-c', file, '-p', folder]);
  };
  nginx(1, 'origin', PORTS.origin);
  const plain = nginx(0, 'proxy', PORTS.nginx);
  const bare = start(0, process.execPath, [path.join(root, 'dist/bench/bare-proxy.js')], {
    PORT: String(PORTS.bare),
    UPSTREAM: `http://127.0.0.1:${PORTS.origin}`,
  });
  const main = path.join(root, 'dist/src/main.js');
  const serve = (port: number, rest: string): ChildProcess =>
    start(0, process.execPath, [main, 'serve', '--config', gateConfig(port, rest)]);
  const gate = serve(PORTS.gate, `admin: { listen: "127.0.0.1:${PORTS.admin}" }`);
  const quiet = serve(PORTS.quiet, 'admin: { enabled: false }\ncorrelator: { enabled: false }');
  await Promise.all([PORTS.origin, PORTS.nginx, PORTS.bare, PORTS.gate, PORTS.quiet].map(untilOpen));
  return [
    { name: 'plain nginx', port: PORTS.nginx, process: plain },
    { name: BARE, port: PORTS.bare, process: bare },
    { name: GATE, port: PORTS.gate, process: gate },
    { name: 'Tidegate without its correlator', port: PORTS.quiet, process: quiet },
  ];
}

const BARE = 'bare undici proxy';
const GATE = 'Tidegate';
const HEADINGS = ['requests/s', 'against bare', 'CPU µs a request', 'against bare', 'p50 µs', 'p99 µs'];

function table(kind: string, seen: ReadonlyMap<string, readonly Figures[]>): string {
  const of = (name: string, key: keyof Figures): number =>
    median((seen.get(name) ?? []).map((figures) => figures[key]));
  let text = `\n| ${kind} | ${HEADINGS.join(' | ')} |\n${'|---'.repeat(HEADINGS.length + 1)}|\n`;
  for (const name of seen.keys()) {
    const rate = of(name, 'perSecond');
    const cpu = of(name, 'cpuUs');
    const row = [
      Math.round(rate),
      (rate / of(BARE, 'perSecond')).toFixed(2),
      cpu.toFixed(1),
      (of(BARE, 'cpuUs') / cpu).toFixed(2),
      of(name, 'p50Us'),
      of(name, 'p99Us'),
    ];
    text += `| ${name} | ${row.join(' | ')} |\n`;
  }
  return text;
}

type Lag = Readonly<{ seconds: number; lost: number }>;

const LOOK_EVERY_MS = 250;
const STILL_MS = 3_000;

/** After a load: when the correlator took the last event, and what was lost on the way since the start. */
async function lagOf(): Promise<Lag> {
  const endedMs = performance.now();
  let lastMs = endedMs;
  let taken = -1;
  let lost = 0;
  while (performance.now() - lastMs < STILL_MS) {
    const text = await (await fetch(`http://127.0.0.1:${PORTS.admin}/metrics`)).text();
    const sum = (name: string): number =>
      [...text.matchAll(new RegExp(`^tidegate_${name}(?:_total)?(?:\\{[^}]*\\})? ([\\d.e+]+)$`, 'gm'))]
        .map(([, value]) => Number(value))
        .reduce((total, value) => total + value, 0);
    lost = sum('bus_dropped') + sum('correlator_bus_given_up');
    if (sum('correlator_taken') > taken) lastMs = performance.now();
    taken = Math.max(taken, sum('correlator_taken'));
    await new Promise((resolve) => setTimeout(resolve, LOOK_EVERY_MS));
  }
  return { seconds: (lastMs - endedMs) / 1_000, lost };
}

async function main(): Promise<void> {
  const subjects = await startAll();
  const lags: Lag[] = [];
  for (const [kind, script] of [
    ['GET', GET],
    ['JSON POST 1 KB', POST],
  ] as const) {
    const seen = new Map<string, Figures[]>(subjects.map(({ name }) => [name, []]));
    for (let round = 0; round <= ROUNDS; round++) {
      for (const subject of subjects) {
        const figures = await load(subject, script, round === 0 ? 2 : SECONDS);
        if (round > 0) seen.get(subject.name)?.push(figures);
        if (subject.name === GATE) lags.push(await lagOf());
      }
    }
    process.stdout.write(table(kind, seen));
  }
  const longest = Math.max(...lags.map(({ seconds }) => seconds));
  const lost = lags.at(-1)?.lost ?? NaN;
  process.stdout.write(
    `\nThe correlator took the last event at most ${longest.toFixed(1)} s after a load ended (its figures are up to a second old); ${lost} events lost.\n`,
  );
}

main()
  .catch((error: unknown) => {
    process.stderr.write(`${(error as Error).message}\n`);
    process.exitCode = 1;
  })
  .finally(() => {
    for (const child of children) child.kill('SIGTERM');
    setTimeout(() => rmSync(folder, { recursive: true, force: true }), 1500);
  });
