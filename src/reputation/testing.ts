/**
 * What the tests of this folder share: a temporary folder, a clock that is set by hand, a log that remembers.
 */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { monitorEventLoopDelay } from 'node:perf_hooks';
import { fileURLToPath } from 'node:url';
import { prefixKey } from '../core/address.js';
import type { ClientFacts } from '../core/request.js';
import type { Log } from './source.js';

export const DEMO = fileURLToPath(new URL('../../deploy/demo/', import.meta.url));

export function clientOf(ip: string): ClientFacts {
  return { ip, key: prefixKey(ip, 64), wideKey: prefixKey(ip, 56), peer: '127.0.0.1', viaProxy: true };
}

export function handClock(nowMs = 1_000_000) {
  const clock = { at: nowMs, nowMs: () => clock.at };
  return clock;
}

export function memoryLog() {
  const lines: string[] = [];
  const log: Log = (level, message) => void lines.push(`${level} ${message}`);
  return { log, lines, text: () => lines.join('\n') };
}

type Teardown = { teardown(work: () => Promise<void>): void };

export async function tempFolder(t: Teardown): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'tidegate-test-'));
  t.teardown(() => rm(folder, { recursive: true, force: true }));
  return folder;
}

/** Waits until `holds`, at most five seconds; says whether it did. */
export async function until(holds: () => boolean): Promise<boolean> {
  for (const end = Date.now() + 5000; Date.now() < end;) {
    if (holds()) return true;
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
  return holds();
}

/** The longest pause of the event loop, in milliseconds, while `work` runs. */
export async function longestStall(work: () => Promise<unknown>): Promise<number> {
  const delay = monitorEventLoopDelay({ resolution: 1 });
  delay.enable();
  await work();
  delay.disable();
  return delay.max / 1e6;
}
