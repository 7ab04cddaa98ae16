/**
 * Packets through the XDP filter without a network: the loader's `test-run` over a pipe. `filterMissing` says
 * why there is no filter to try, for tap's `skip`.
 */
import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { createInterface, type Interface } from 'node:readline';
import type { Test } from 'tap';

const root = join(import.meta.dirname, import.meta.dirname.includes('/dist/') ? '../../..' : '../..');
export const BPF_FOLDER = join(root, 'bpf');
export const LOADER = join(BPF_FOLDER, 'build/tidegate-xdp');
const WAIT_MS = 20_000;

export type Answer = Readonly<Record<string, unknown> & { ok: boolean }>;
export type Tried = Readonly<{
  verdict: string;
  /** Packets by `group.name`, only those that moved. */
  counters: Readonly<Record<string, number>>;
  bytes: Readonly<Record<string, number>>;
  /** Nanoseconds a packet, by the kernel's clock. */
  ns: number;
}>;
export type Entry = Readonly<{ net: string; until?: number; severity?: number }>;

function missing(): string | false {
  if (process.platform !== 'linux') return 'the XDP filter is for Linux';
  if (!existsSync(LOADER)) return 'the XDP filter is not built (make bpf)';
  const tried = spawnSync(LOADER, ['test-run'], { input: '', encoding: 'utf8', timeout: WAIT_MS });
  return tried.status === 0
    ? false
    : `the XDP filter cannot be loaded here: ${tried.stderr.trim().slice(-200)}`;
}

export const filterMissing = missing();

export type Counters = Record<string, Record<string, { packets: number; bytes: number }>>;

function flat(counters: Counters, field: 'packets' | 'bytes'): Record<string, number> {
  return Object.fromEntries(
    Object.entries(counters).flatMap(([group, names]) =>
      Object.entries(names).map(([name, counter]) => [`${group}.${name}`, counter[field]]),
    ),
  );
}

/** One loader with a program and lists of its own; each answer in the order of the lines. */
export class TryOut {
  readonly #child: ChildProcess;
  readonly #lines: Interface;
  readonly #answers: Answer[] = [];
  readonly #waiting: ((answer: Answer) => void)[] = [];

  constructor(args: readonly string[] = []) {
    this.#child = spawn(LOADER, ['test-run', ...args], { stdio: ['pipe', 'pipe', 'inherit'] });
    this.#lines = createInterface({ input: this.#child.stdout! });
    this.#lines.on('line', (line) => {
      const answer = JSON.parse(line) as Answer;
      const waiting = this.#waiting.shift();
      if (waiting === undefined) this.#answers.push(answer);
      else waiting(answer);
    });
  }

  send(line: object | string): void {
    this.#child.stdin!.write(`${typeof line === 'string' ? line : JSON.stringify(line)}\n`);
  }

  /** The next answer that nobody has taken yet. */
  next(): Promise<Answer> {
    const ready = this.#answers.shift();
    if (ready !== undefined) return Promise.resolve(ready);
    return new Promise((resolve, reject) => {
      const timer = setTimeout(() => reject(new Error('the loader does not answer')), WAIT_MS);
      this.#waiting.push((answer) => {
        clearTimeout(timer);
        resolve(answer);
      });
    });
  }

  ask(line: object | string): Promise<Answer> {
    this.send(line);
    return this.next();
  }

  /** Puts these lists into force; the answer to the commit. */
  commit(bans: readonly Entry[], allows: readonly Entry[] = [], generation = 1): Promise<Answer> {
    this.send({ op: 'begin', generation });
    for (const ban of bans) this.send({ op: 'ban', ...ban });
    for (const allow of allows) this.send({ op: 'allow', ...allow });
    return this.ask({ op: 'commit' });
  }

  /** The frame through the program, `repeat` times; the verdict is the last one's. */
  async packet(bytes: Buffer, repeat = 1): Promise<Tried> {
    const answer = await this.ask({ op: 'packet', hex: bytes.toString('hex'), repeat });
    if (!answer.ok) throw new Error(String(answer.error));
    const counters = answer.counters as Counters;
    return {
      verdict: String(answer.verdict),
      counters: flat(counters, 'packets'),
      bytes: flat(counters, 'bytes'),
      ns: Number(answer.ns),
    };
  }

  /** The exit code, once its input has ended. */
  async end(): Promise<number | null> {
    const left = new Promise<number | null>((resolve) => this.#child.once('close', resolve));
    if (this.#child.exitCode !== null) return this.#child.exitCode;
    this.#child.stdin!.end();
    const timer = setTimeout(() => this.#child.kill('SIGKILL'), WAIT_MS);
    const code = await left;
    clearTimeout(timer);
    return code;
  }
}

/** One that ends with the test. */
export function tryOut(t: Test, args: readonly string[] = []): TryOut {
  const one = new TryOut(args);
  t.teardown(() => one.end());
  return one;
}
