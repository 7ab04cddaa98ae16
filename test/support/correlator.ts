/** `tidegate correlate` as a child process, and what is to be seen of it. */
import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { createInterface } from 'node:readline';
import { setTimeout as sleep } from 'node:timers/promises';
import { stringify } from 'yaml';
import { ROOT, type ConfigTree } from './gate.js';

export type CorrelatorChild = Readonly<{
  pid: number;
  /** Everything it said. */
  lines: readonly string[];
  /** Value of a metric with its labels, `correlator_bans{outcome="made"}`; undefined while it does not answer. */
  metric(name: string): Promise<number | undefined>;
  health(): Promise<Record<string, unknown> | undefined>;
  kill(): Promise<void>;
  /** SIGTERM; answers the exit code. */
  stop(): Promise<number | null>;
}>;

const running = new Set<ChildProcess>();
process.once('exit', () => running.forEach((child) => child.kill('SIGKILL')));

const START_MS = 30_000;
const STOP_MS = 15_000;

/** A config file in a folder of its own; `remove` takes both away. */
export function writeConfig(tree: ConfigTree): Readonly<{ file: string; remove: () => void }> {
  const folder = mkdtempSync(join(tmpdir(), 'tidegate-correlate-'));
  const file = join(folder, 'gate.yaml');
  const sites = [{ name: 'shop', hosts: ['app.test'], upstreams: ['http://127.0.0.1:1'] }];
  writeFileSync(file, stringify({ listen: '127.0.0.1:0', sites, ...tree }));
  return { file, remove: () => rmSync(folder, { recursive: true, force: true }) };
}

/** Resolves once it says that it is ready. */
export async function startCorrelator(file: string): Promise<CorrelatorChild> {
  const main = resolve(ROOT, 'dist/src/main.js');
  const child = spawn(process.execPath, [main, 'correlate', '--config', file], {
    cwd: ROOT,
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  running.add(child);
  child.once('exit', () => running.delete(child));
  const lines: string[] = [];
  const ready = new Promise<string>((done) => {
    for (const stream of [child.stdout, child.stderr]) {
      createInterface({ input: stream }).on('line', (line) => {
        lines.push(line);
        if (line.includes('"msg":"ready"')) done(line);
      });
    }
  });
  const ended = once(child, 'exit').then(() => undefined);
  const line = await Promise.race([ready, ended, sleep(START_MS, undefined, { ref: false })]);
  if (line === undefined) {
    child.kill('SIGKILL');
    throw new Error(`the correlator did not start:\n${lines.join('\n')}`);
  }
  const { listen } = JSON.parse(line) as { listen?: string };
  const get = async (path: string): Promise<string | undefined> => {
    try {
      return await (await fetch(`${listen}${path}`, { signal: AbortSignal.timeout(2_000) })).text();
    } catch {
      return undefined;
    }
  };
  return {
    pid: child.pid!,
    lines,
    async metric(name) {
      const text = (await get('/metrics'))?.split('\n').find((each) => !each.startsWith('#') && each.includes(`${name} `));
      return text === undefined ? undefined : Number(text.slice(text.lastIndexOf(' ') + 1));
    },
    async health() {
      const text = await get('/healthz');
      return text === undefined ? undefined : (JSON.parse(text) as Record<string, unknown>);
    },
    async kill() {
      if (child.exitCode !== null || child.signalCode !== null) return;
      const gone = once(child, 'exit');
      child.kill('SIGKILL');
      await gone;
    },
    async stop() {
      if (child.exitCode !== null || child.signalCode !== null) return child.exitCode;
      const gone = once(child, 'exit');
      child.kill('SIGTERM');
      const timer = setTimeout(() => child.kill('SIGKILL'), STOP_MS);
      await gone;
      clearTimeout(timer);
      return child.exitCode;
    },
  };
}
