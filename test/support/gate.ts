/** Starts the gate as a person would (its command, a config file, free ports) and collects what it logs. */
import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join, resolve } from 'node:path';
import { createInterface } from 'node:readline';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { parse, stringify } from 'yaml';
import type { DecisionEvent } from '../../src/core/event.js';

export type ConfigTree = Record<string, unknown>;

export type GateOptions = {
  upstream?: string;
  /** Files beside the config, by relative name. */
  files?: Readonly<Record<string, string | Buffer>>;
  env?: Readonly<Record<string, string>>;
  readyTimeoutMs?: number;
};

/** Site `app.test`; the address limits are off so that stage 2 does not mix in. */
export const QUIET_LIMITS = {
  policies: [
    { name: 'ingress', enabled: false },
    { name: 'api', enabled: false },
  ],
};

function root(): string {
  let at = dirname(fileURLToPath(import.meta.url));
  while (!readdirSync(at).includes('package.json')) at = dirname(at);
  return at;
}

export const ROOT = root();
export const TOKEN = 'test-token';

export class Gate {
  readonly lines: string[] = [];
  readonly decisions: DecisionEvent[] = [];
  /** Everything on the error stream. */
  stderr = '';
  port = 0;
  adminPort = 0;
  readonly folder: string;
  readonly child: ChildProcess;
  readonly configFile: string;
  exit: { code: number | null; signal: NodeJS.Signals | null } | undefined;

  constructor(folder: string, configFile: string, child: ChildProcess) {
    this.folder = folder;
    this.configFile = configFile;
    this.child = child;
    child.once('exit', (code, signal) => (this.exit = { code, signal }));
    child.stderr?.on('data', (part: Buffer) => {
      this.stderr = (this.stderr + part.toString()).slice(-64 * 1024);
    });
  }

  /** Decisions that fit; those still on their way are waited for. */
  async event(fits: (event: DecisionEvent) => boolean, timeoutMs = 3000): Promise<DecisionEvent> {
    const deadline = Date.now() + timeoutMs;
    for (;;) {
      const found = this.decisions.find(fits);
      if (found) return found;
      if (Date.now() > deadline) throw new Error('no decision event that fits was logged in time');
      await sleep(15);
    }
  }

  events(fits: (event: DecisionEvent) => boolean = () => true): DecisionEvent[] {
    return this.decisions.filter(fits);
  }

  /** Worker processes, by their parent. */
  workers(): number[] {
    const parent = this.child.pid;
    return readdirSync('/proc')
      .filter((name) => /^\d+$/.test(name))
      .map(Number)
      .filter((pid) => parentOf(pid) === parent);
  }

  /** Resident memory of all workers, MiB. */
  workerMemoryMiB(): number {
    return this.workers().reduce((sum, pid) => sum + residentMiB(pid), 0);
  }

  writeConfig(tree: ConfigTree | string): void {
    writeFileSync(this.configFile, typeof tree === 'string' ? tree : stringify(tree));
  }

  write(name: string, content: string | Buffer): void {
    writeFileSync(join(this.folder, name), content);
  }

  reload(): void {
    this.child.kill('SIGHUP');
  }

  async admin(path: string, init: RequestInit = {}): Promise<Response> {
    return fetch(`http://127.0.0.1:${this.adminPort}${path}`, init);
  }

  async stop(): Promise<void> {
    if (!this.exit) {
      const gone = once(this.child, 'exit');
      const workers = this.workers();
      this.child.kill('SIGTERM');
      const ended = await Promise.race([gone.then(() => true), sleep(4000, false)]);
      if (!ended) {
        this.child.kill('SIGKILL');
        for (const pid of workers) killQuietly(pid);
        await gone;
      }
    }
    rmSync(this.folder, { recursive: true, force: true });
  }
}

function parentOf(pid: number): number | undefined {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'latin1');
    return Number(stat.slice(stat.lastIndexOf(')') + 2).split(' ')[1]);
  } catch {
    return undefined;
  }
}

export function residentMiB(pid: number): number {
  try {
    return Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, 'latin1'))?.[1] ?? 0) / 1024;
  } catch {
    return 0;
  }
}

function killQuietly(pid: number): void {
  try {
    process.kill(pid, 'SIGKILL');
  } catch {
    // It has ended by itself.
  }
}

/** The whole config: what the test gives, over one worker, one site and free ports. */
export function fullConfig(given: ConfigTree | string, upstream: string | undefined): ConfigTree {
  const tree = typeof given === 'string' ? (parse(given) as ConfigTree) : given;
  return {
    listen: '127.0.0.1:0',
    workers: 1,
    sites: [{ name: 'shop', hosts: ['app.test'], upstreams: [upstream ?? 'http://127.0.0.1:1'] }],
    limits: QUIET_LIMITS,
    admin: { listen: '127.0.0.1:0', tokenEnv: 'TIDEGATE_ADMIN_TOKEN' },
    ...tree,
    // Attacks and controls come from one address here: its refusals must not colour what follows.
    reputation: { points: { refusal: 0 }, ...(tree['reputation'] as ConfigTree | undefined) },
  };
}

/** Gates that would outlive a test file that ends by throwing. */
const running = new Set<ChildProcess>();
process.once('exit', () => running.forEach((child) => child.kill('SIGKILL')));

export async function startGate(given: ConfigTree | string = {}, options: GateOptions = {}): Promise<Gate> {
  const folder = mkdtempSync(join(tmpdir(), 'tidegate-test-'));
  for (const [name, content] of Object.entries(options.files ?? {})) {
    mkdirSync(dirname(join(folder, name)), { recursive: true });
    writeFileSync(join(folder, name), content);
  }
  const configFile = join(folder, 'gate.yaml');
  writeFileSync(configFile, stringify(fullConfig(given, options.upstream)));
  const fromSource = process.env['TIDEGATE_FROM'] === 'src';
  const command = fromSource
    ? ['--import', 'tsx', resolve(ROOT, 'src/main.ts')]
    : [resolve(ROOT, 'dist/src/main.js')];
  const env: NodeJS.ProcessEnv = { TIDEGATE_ADMIN_TOKEN: TOKEN, ...options.env };
  for (const name of ['PATH', 'HOME', 'TMPDIR']) env[name] = process.env[name];
  const child = spawn(process.execPath, [...command, 'serve', '--config', configFile], {
    cwd: ROOT,
    env,
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  const gate = new Gate(folder, configFile, child);
  running.add(child);
  child.once('exit', () => running.delete(child));
  await untilReady(gate, options.readyTimeoutMs ?? 30_000);
  return gate;
}

async function untilReady(gate: Gate, timeoutMs: number): Promise<void> {
  const ready = new Promise<void>((done) => {
    createInterface({ input: gate.child.stdout ?? process.stdin }).on('line', (line) => {
      const record = parseLine(line);
      if (gate.lines.length < 200_000) gate.lines.push(line);
      if (record?.['msg'] === 'ready') {
        gate.port = portOf(record['listen']);
        gate.adminPort = portOf(record['admin']);
        done();
      } else if (record && Array.isArray(record['steps']))
        gate.decisions.push(record as unknown as DecisionEvent);
    });
  });
  const ended = once(gate.child, 'exit').then(() => 'ended' as const);
  const result = await Promise.race([ready, ended, sleep(timeoutMs, 'late' as const, { ref: false })]);
  if (result === undefined) return;
  gate.child.kill('SIGKILL');
  throw new Error(
    `the gate did not become ready (${result}):\n${gate.lines.slice(-20).join('\n')}\n${gate.stderr}`,
  );
}

function parseLine(line: string): Record<string, unknown> | undefined {
  try {
    const value: unknown = JSON.parse(line);
    return typeof value === 'object' && value !== null ? (value as Record<string, unknown>) : undefined;
  } catch {
    return undefined;
  }
}

function portOf(value: unknown): number {
  const first: unknown = Array.isArray(value) ? value[0] : value;
  const text = typeof first === 'object' && first !== null ? JSON.stringify(first) : String(first);
  return Number(/:(\d+)\D*$/.exec(text)?.[1] ?? 0);
}
