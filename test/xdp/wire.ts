/**
 * Two network namespaces joined by a wire (a pair of veth), and a bpf file system of their own: the gate's
 * end has the filter, the client's end has many addresses. Removed with the test. Needs root.
 */
import { execFileSync, spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Test } from 'tap';
import { FIXED_SETTINGS, type KernelSettings } from '../../src/xdp/answers.js';
import { createLoader, type Loader } from '../../src/xdp/loader.js';
import { ROOT } from '../support/gate.js';

export const LOADER = join(ROOT, 'bpf/build/tidegate-xdp');
export const INTERFACE = 'tg0';
export const GATE4 = '10.77.0.1';
export const GATE6 = 'fd77::1';
/** An operator, the others strangers. */
export const OFFICE = '10.77.0.2';
export const STRANGERS = [
  '203.0.113.7',
  '203.0.113.8',
  '203.0.112.255',
  '203.0.114.0',
  '198.51.100.9',
] as const;
export const STRANGERS6 = ['2001:db8:1::7', '2001:db8:1::8', '2001:db8:1:1::7', '2001:db8:2::7'] as const;

const PEER = join(ROOT, 'test/xdp/peer.mjs');
const WAIT_MS = 20_000;

/** Why no test with real packets can run here; undefined where they can. */
export function whyNot(): string | undefined {
  if (process.platform !== 'linux') return 'the filter is for Linux';
  if (process.getuid?.() !== 0) return 'network namespaces need root';
  if (!existsSync(LOADER)) return 'the loader is not built (make bpf)';
  const name = `tg-try-${process.pid}`;
  const folder = mkdtempSync(join(tmpdir(), 'tidegate-xdp-'));
  const undo = [
    (): unknown => run('umount', ['-l', folder]),
    (): unknown => run('ip', ['netns', 'del', name]),
    (): unknown => rmSync(folder, { recursive: true, force: true }),
  ];
  try {
    run('ip', ['netns', 'add', name]);
    run('mount', ['-t', 'bpf', 'bpf', folder]);
    run('nsenter', [`--net=/run/netns/${name}`, 'true']);
    return undefined;
  } catch (error) {
    const why = error instanceof Error ? error.message.slice(0, 120) : String(error);
    return `no network namespaces or bpf file system here: ${why}`;
  } finally {
    undo.forEach(attempt);
  }
}

function run(file: string, args: readonly string[]): string {
  return execFileSync(file, [...args], {
    encoding: 'utf8',
    stdio: ['ignore', 'pipe', 'pipe'],
    timeout: WAIT_MS,
  });
}

type Ask = Readonly<{ what: string } & Record<string, unknown>>;

/** A process at one end. */
export class Peer {
  readonly #child: ChildProcess;
  readonly #waiting = new Map<
    number,
    { resolve: (value: unknown) => void; reject: (error: Error) => void }
  >();
  #next = 1;

  private constructor(child: ChildProcess) {
    this.#child = child;
    child.on('message', (message: { id: number; value?: unknown; error?: string }) => {
      const waiting = this.#waiting.get(message.id);
      this.#waiting.delete(message.id);
      if (message.error === undefined) waiting?.resolve(message.value);
      else waiting?.reject(new Error(message.error));
    });
    child.once('exit', () => {
      for (const { reject } of this.#waiting.values()) reject(new Error('the other end died'));
    });
  }

  static async start(namespace: string): Promise<Peer> {
    const child = spawn('nsenter', [`--net=/run/netns/${namespace}`, process.execPath, PEER], {
      stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
    });
    const peer = new Peer(child);
    await once(child, 'message', { signal: AbortSignal.timeout(WAIT_MS) });
    return peer;
  }

  ask<T = undefined>(ask: Ask): Promise<T> {
    const id = this.#next++;
    return new Promise((resolve, reject) => {
      const timer = setTimeout(() => reject(new Error(`${ask.what} took too long`)), WAIT_MS);
      this.#waiting.set(id, {
        resolve: (value) => {
          clearTimeout(timer);
          resolve(value as T);
        },
        reject: (error) => {
          clearTimeout(timer);
          reject(error);
        },
      });
      this.#child.send({ id, ...ask });
    });
  }

  async stop(): Promise<void> {
    if (this.#child.exitCode !== null) return;
    const ended = once(this.#child, 'exit');
    this.#child.kill('SIGKILL');
    await ended;
  }
}

export type Wire = Readonly<{
  /** Where to pin, on a bpf file system. */
  pin: string;
  folder: string;
  gate: Peer;
  client: Peer;
  /** Arguments that run a command at the gate's end: `nsenter …`. */
  atGate: readonly [file: string, ...args: string[]];
  /** The loader as a file that runs at the gate's end. */
  loaderFile: string;
}>;

const WIDE_OPEN: KernelSettings = {
  ...FIXED_SETTINGS,
  dryRun: false,
  packetsPerSecond: 0,
  synPerSecond: 0,
  deepVlan: 'drop',
  management: [OFFICE],
};

/** The loader as the agent uses it; without caps unless `settings` says so. */
export function loaderOn(
  wire: Wire,
  mode: 'driver' | 'generic',
  settings: Partial<KernelSettings> = {},
): Loader {
  return createLoader({
    file: wire.loaderFile,
    timeoutMs: WAIT_MS,
    interface: INTERFACE,
    pin: wire.pin,
    mode,
    entries: 10_000,
    settings: { ...WIDE_OPEN, ...settings },
  });
}

/** Packets under one verdict, such as `dropped` `banned`. */
export async function packets(loader: Loader, group: string, name: string): Promise<number> {
  const status = await loader.status();
  return status?.counters.find((one) => one.group === group && one.name === name)?.packets ?? -1;
}

let counted = 0;

/** Both ends up, with addresses and routes. */
export async function openWire(t: Test): Promise<Wire> {
  const name = `tg-${process.pid}-${++counted}`;
  const gateNs = `${name}-g`;
  const clientNs = `${name}-c`;
  const folder = mkdtempSync(join(tmpdir(), 'tidegate-xdp-'));
  const bpf = join(folder, 'bpf');
  mkdirSync(bpf);
  const ends: Peer[] = [];
  t.teardown(async () => {
    for (const end of ends) await end.stop();
    for (const ns of [gateNs, clientNs]) attempt(() => run('ip', ['netns', 'del', ns]));
    attempt(() => run('umount', ['-l', bpf]));
    rmSync(folder, { recursive: true, force: true });
  });
  run('mount', ['-t', 'bpf', 'bpf', bpf]);
  for (const ns of [gateNs, clientNs]) {
    run('ip', ['netns', 'add', ns]);
    run('ip', ['-n', ns, 'link', 'set', 'lo', 'up']);
  }
  run('ip', [
    '-n',
    gateNs,
    'link',
    'add',
    INTERFACE,
    'type',
    'veth',
    'peer',
    'name',
    'tg1',
    'netns',
    clientNs,
  ]);
  address(gateNs, INTERFACE, [`${GATE4}/24`, `${GATE6}/64`]);
  address(clientNs, 'tg1', [`${OFFICE}/24`, 'fd77::2/64', ...STRANGERS, ...STRANGERS6]);
  run('ip', ['-n', gateNs, 'route', 'add', 'default', 'via', OFFICE]);
  run('ip', ['-n', gateNs, '-6', 'route', 'add', 'default', 'via', 'fd77::2']);
  const gate = await Peer.start(gateNs);
  ends.push(gate);
  const client = await Peer.start(clientNs);
  ends.push(client);
  const atGate = ['nsenter', `--net=/run/netns/${gateNs}`] as const;
  const loaderFile = join(folder, 'loader');
  writeFileSync(loaderFile, `#!/bin/sh\nexec ${atGate.join(' ')} ${LOADER} "$@"\n`, { mode: 0o755 });
  return {
    pin: join(bpf, 'tidegate'),
    folder,
    gate,
    client,
    atGate,
    loaderFile,
  };
}

function address(ns: string, link: string, all: readonly string[]): void {
  for (const one of all) {
    const v6 = one.includes(':') ? ['nodad'] : [];
    run('ip', ['-n', ns, 'addr', 'add', one, 'dev', link, ...v6]);
  }
  run('ip', ['-n', ns, 'link', 'set', link, 'up']);
}

function attempt(work: () => unknown): void {
  try {
    work();
  } catch {
    // It was never made, or is gone.
  }
}
