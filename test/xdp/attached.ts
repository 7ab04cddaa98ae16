/**
 * The XDP filter on a pair of veth in namespaces of their own, with a BPF file system of its own (`ip netns
 * exec` hides the usual one). All of it goes with the test.
 */
import { spawn, spawnSync, type ChildProcess } from 'node:child_process';
import { mkdtempSync, readdirSync, rmdirSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import type { Test } from 'tap';
import { filterMissing, LOADER, type Answer, type Counters } from './try-out.js';

const WAIT_MS = 20_000;

export type Ran = Readonly<{ code: number | null; answer: Answer; stderr: string }>;

function quietly(file: string, args: readonly string[]): boolean {
  return spawnSync(file, [...args], { stdio: 'ignore', timeout: WAIT_MS }).status === 0;
}

function surely(file: string, args: readonly string[]): void {
  const { status, stderr } = spawnSync(file, [...args], { encoding: 'utf8', timeout: WAIT_MS });
  if (status !== 0) throw new Error(`${file} ${args.join(' ')}: ${stderr}`);
}

function missing(): string | false {
  if (filterMissing !== false) return filterMissing;
  if (process.getuid?.() !== 0) return 'network namespaces need root';
  const name = `tg-probe-${process.pid}`;
  if (!quietly('ip', ['netns', 'add', name])) return 'no network namespaces can be made here';
  quietly('ip', ['netns', 'del', name]);
  return false;
}

/** False, or why no filter can be attached here. */
export const wireMissing = missing();

let places = 0;

/** Two ends of a wire; the filter goes to the near one. */
export class Place {
  readonly near: string;
  readonly far: string;
  readonly pins: string;
  readonly #mount: string;
  readonly #children: ChildProcess[] = [];

  constructor() {
    const id = `${process.pid}-${++places}`;
    this.near = `tg-near-${id}`;
    this.far = `tg-far-${id}`;
    this.#mount = mkdtempSync(join(tmpdir(), 'tg-bpf-'));
    this.pins = join(this.#mount, 'tidegate');
    surely('mount', ['-t', 'bpf', 'bpf', this.#mount]);
    for (const name of [this.near, this.far]) surely('ip', ['netns', 'add', name]);
    // The kernel's own IPv6 chatter would be counted too.
    const quiet = 'echo 1 >/proc/sys/net/ipv6/conf/default/disable_ipv6';
    for (const name of [this.near, this.far]) quietly('ip', ['netns', 'exec', name, 'sh', '-c', quiet]);
    const near = ['link', 'add', 'near', 'netns', this.near, 'type', 'veth'];
    surely('ip', [...near, 'peer', 'name', 'far', 'netns', this.far]);
    for (const [name, link] of [
      [this.near, 'near'],
      [this.near, 'lo'],
      [this.far, 'far'],
    ] as const) {
      surely('ip', ['-n', name, 'link', 'set', link, 'up']);
    }
  }

  /** The arguments of a command of the loader, run in the near namespace. */
  #words(command: string, args: readonly string[], loader: string): string[] {
    const place = args.includes('--iface') ? [] : ['--iface', 'near'];
    return ['netns', 'exec', this.near, loader, command, ...place, '--pin', this.pins, ...args];
  }

  run(command: string, args: readonly string[] = [], loader = LOADER): Ran {
    const words = this.#words(command, args, loader);
    const { status, stdout, stderr } = spawnSync('ip', words, {
      encoding: 'utf8',
      input: '',
      timeout: WAIT_MS,
    });
    const first = stdout.split('\n')[0]!;
    return { code: status, answer: (first === '' ? {} : JSON.parse(first)) as Answer, stderr };
  }

  /** Lines to a command; all its answers. */
  feed(command: string, lines: readonly object[]): Answer[] {
    const words = this.#words(command, [], LOADER);
    const input = lines.map((line) => `${JSON.stringify(line)}\n`).join('');
    const { stdout } = spawnSync('ip', words, {
      encoding: 'utf8',
      input,
      maxBuffer: 1 << 26,
      timeout: WAIT_MS,
    });
    return stdout
      .split('\n')
      .filter((line) => line !== '')
      .map((line) => JSON.parse(line) as Answer);
  }

  /** A command that stays; its answers are collected in the array. */
  start(command: string, args: readonly string[] = []): { child: ChildProcess; answers: Answer[] } {
    const child = spawn('ip', this.#words(command, args, LOADER), { stdio: ['pipe', 'pipe', 'inherit'] });
    const answers: Answer[] = [];
    createInterface({ input: child.stdout }).on('line', (line) => answers.push(JSON.parse(line) as Answer));
    this.#children.push(child);
    return { child, answers };
  }

  /** Packets of one counter, such as `dropped.banned`. */
  counter(name: string): number {
    const [group, field] = name.split('.') as [string, string];
    const counters = this.run('status').answer.counters as Counters;
    return counters[group]![field]!.packets;
  }

  /** What is pinned, as paths below the file system's root. */
  pinned(): string[] {
    return readdirSync(this.#mount, { recursive: true })
      .map(String)
      .filter((path) => !path.endsWith('.debug'));
  }

  /** Whether any XDP program is on the interface. */
  filtered(): boolean {
    const words = ['-n', this.near, 'link', 'show', 'near'];
    return /xdp/.test(spawnSync('ip', words, { encoding: 'utf8', timeout: WAIT_MS }).stdout);
  }

  close(): void {
    for (const child of this.#children) child.kill('SIGKILL');
    quietly('ip', ['netns', 'del', this.near]);
    quietly('ip', ['netns', 'del', this.far]);
    quietly('umount', ['-l', this.#mount]);
    rmdirSync(this.#mount);
  }
}

/** A place that ends with the test. */
export function place(t: Test): Place {
  const one = new Place();
  t.teardown(() => one.close());
  return one;
}
