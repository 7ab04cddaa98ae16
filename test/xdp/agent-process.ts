/** Commands of Tidegate at the gate's end of a wire: the agent as its command runs it, and short ones. */
import { execFile, spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Test } from 'tap';
import { ROOT } from '../support/gate.js';
import type { Wire } from './wire.js';

const MAIN = join(ROOT, 'dist/src/main.js');
const WAIT_MS = 30_000;

type Line = Readonly<Record<string, unknown>>;
export type Said = Readonly<{ code: number; stdout: string; stderr: string }>;

/** A long-running command at the gate's end; it ends with the test. */
export class Running {
  readonly lines: Line[] = [];
  stderr = '';
  readonly child: ChildProcess;

  private constructor(t: Test, wire: Wire, command: readonly string[]) {
    const [file, ...rest] = wire.atGate;
    this.child = spawn(file, [...rest, ...command], {
      stdio: ['ignore', 'pipe', 'pipe'],
      env: { ...process.env, TIDEGATE_ADMIN_TOKEN: 'test-token' },
    });
    createInterface({ input: this.child.stdout! }).on('line', (line) => {
      try {
        this.lines.push(JSON.parse(line) as Line);
      } catch {
        this.lines.push({ msg: line });
      }
    });
    this.child.stderr!.on(
      'data',
      (part: Buffer) => (this.stderr = (this.stderr + part.toString()).slice(-16_384)),
    );
    t.teardown(() => this.end('SIGKILL'));
  }

  /** A command of Tidegate; what runs it, such as `setpriv …`, in `under`. */
  static tidegate(t: Test, wire: Wire, args: readonly string[], under: readonly string[] = []): Running {
    return new Running(t, wire, [...under, process.execPath, MAIN, ...args]);
  }

  /** Another program. */
  static program(t: Test, wire: Wire, command: readonly string[]): Running {
    return new Running(t, wire, command);
  }

  /** The first line that fits, also one of before. */
  async line(fits: (line: Line) => boolean, what: string): Promise<Line> {
    const deadline = Date.now() + WAIT_MS;
    for (;;) {
      const found = this.lines.find(fits);
      if (found !== undefined) return found;
      if (Date.now() > deadline || this.isOver())
        throw new Error(`no line: ${what}\n${JSON.stringify(this.lines.slice(-10))}\n${this.stderr}`);
      await sleep(20);
    }
  }

  says(text: string): Promise<Line> {
    return this.line(({ msg }) => String(msg).includes(text), text);
  }

  isOver(): boolean {
    return this.child.exitCode !== null || this.child.signalCode !== null;
  }

  /** Its exit code; null where a signal ended it. */
  async end(signal: NodeJS.Signals): Promise<number | null> {
    if (this.isOver()) return this.child.exitCode;
    const ended = once(this.child, 'exit');
    this.child.kill(signal);
    await ended;
    return this.child.exitCode;
  }
}

/** Runs a command of Tidegate at the gate's end to its end. */
export function tidegate(wire: Wire, ...args: string[]): Promise<Said> {
  const [file, ...rest] = wire.atGate;
  const env = { ...process.env, TIDEGATE_ADMIN_TOKEN: 'test-token' };
  return new Promise((resolve) => {
    execFile(
      file,
      [...rest, process.execPath, MAIN, ...args],
      { timeout: WAIT_MS, env },
      (error, stdout, stderr) =>
        resolve({ code: error === null ? 0 : Number(error.code ?? 1), stdout, stderr }),
    );
  });
}

/** Resolves once it holds; false where it did not in time. */
export async function until(holds: () => Promise<boolean> | boolean, ms = WAIT_MS): Promise<boolean> {
  const deadline = Date.now() + ms;
  while (!(await holds())) {
    if (Date.now() > deadline) return false;
    await sleep(30);
  }
  return true;
}
