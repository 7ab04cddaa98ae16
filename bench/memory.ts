/**
 * Resident memory of one worker alone, through a real gate: at rest, and after 50 000 distinct client
 * addresses that a trusted loopback peer names in X-Forwarded-For. The counters live in the supervisor, shown
 * beside it.
 */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { createInterface } from 'node:readline';
import { setTimeout as sleep } from 'node:timers/promises';
import { Pool } from 'undici';

const CLIENTS = Number(process.env['CLIENTS'] ?? 50_000);
/** Each of them sends 25 of the requests before, below every limit that ships. */
const FEW = 2_000;
const AT_ONCE = 32;
const SETTLE_MS = 3_000;
const root = path.resolve(import.meta.dirname, '../..');

const residentMb = (pid: number): number =>
  Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, 'latin1'))?.[1] ?? 0) / 1024;

type Ready = { listen: string[]; admin: string; pid: number };

async function main(): Promise<void> {
  const folder = mkdtempSync(path.join(tmpdir(), 'tidegate-memory-'));
  const origin = createServer((_request, response) => void response.end('ok'));
  await once(origin.listen(0, '127.0.0.1'), 'listening');
  const { port } = origin.address() as AddressInfo;
  const config = path.join(folder, 'gate.yaml');
  const log = path.join(folder, 'gate.log');
  writeFileSync(
    config,
    JSON.stringify({
      listen: '127.0.0.1:0',
      workers: 1,
      workerHeap: process.env.WORKER_HEAP ?? 'fast',
      trustedProxies: ['127.0.0.1/32'],
      sites: [{ name: 'bench', hosts: ['*'], upstreams: [`http://127.0.0.1:${port}`] }],
      admin: { listen: '127.0.0.1:0' },
      log: { file: log },
    }),
  );
  const gate = spawn(process.execPath, [path.join(root, 'dist/src/main.js'), 'serve', '--config', config], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  try {
    const [line] = (await once(createInterface({ input: gate.stdout }), 'line')) as [string];
    await measure(JSON.parse(line) as Ready);
  } finally {
    gate.kill('SIGTERM');
    await once(gate, 'exit');
    origin.close();
    rmSync(folder, { recursive: true, force: true });
  }
}

type Client = (index: number) => string;

const address = (index: number): string => `10.${index >> 16}.${(index >> 8) & 255}.${index & 255}`;

/** One request each from clients 0 to CLIENTS - 1; answers how many passed. */
async function round(pool: Pool, client: Client, look: () => void): Promise<number> {
  let next = 0;
  let passed = 0;
  const one = async (): Promise<void> => {
    for (let index; (index = next++) < CLIENTS;) {
      const headers = {
        host: 'bench.test',
        'x-forwarded-for': client(index),
        'user-agent': 'Mozilla/5.0 (X11; Linux x86_64; rv:128.0) Gecko/20100101 Firefox/128.0',
        accept: '*/*',
      };
      const { statusCode, body } = await pool.request({ method: 'GET', path: `/p/${index % 500}`, headers });
      await body.dump();
      if (statusCode === 200) passed++;
      if (index % 1000 === 0) look();
    }
  };
  await Promise.all(Array.from({ length: AT_ONCE }, one));
  await sleep(SETTLE_MS);
  return passed;
}

async function measure({ listen, admin, pid }: Ready): Promise<void> {
  const controls = (await (await fetch(`${admin}/controls`)).json()) as { workers: { pid: number }[] };
  const worker = controls.workers[0]?.pid ?? 0;
  const seen: (readonly [worker: number, supervisor: number])[] = [];
  let peak = 0;
  const look = (): void => void (peak = Math.max(peak, residentMb(worker)));
  const keep = (): void => void seen.push([residentMb(worker), residentMb(pid)]);
  const pool = new Pool(listen[0] ?? '', { connections: AT_ONCE });
  keep();
  // What the same traffic costs without new addresses: compiled code, young garbage, buffers.
  const warm = await round(pool, (index) => address(0x10000 + (index % FEW)), look);
  keep();
  const passed = await round(pool, address, look);
  keep();
  await pool.close();
  report(seen, { warm, passed, peak });
}

function report(
  seen: readonly (readonly [worker: number, supervisor: number])[],
  { warm, passed, peak }: Readonly<{ warm: number; passed: number; peak: number }>,
): void {
  const row = (name: string, at: 0 | 1): string => {
    const [rest = 0, before = 0, after = 0] = seen.map((both) => both[at]);
    const each = Math.max(0, ((after - before) * 2 ** 20) / CLIENTS).toFixed(0);
    return `| ${[name, rest.toFixed(0), before.toFixed(0), after.toFixed(0), each].join(' | ')} |\n`;
  };
  process.stdout.write(
    `Memory (MB resident) at rest, after ${CLIENTS} requests of ${FEW} addresses (${warm} served), and after ` +
      `${CLIENTS}\nmore of as many distinct addresses (${passed} served):\n\n` +
      `| process | at rest | ${FEW} addresses | ${CLIENTS} more | bytes a new address |\n|---|---|---|---|---|\n` +
      row('worker', 0) +
      row('supervisor, which holds the counters', 1) +
      `\nThe worker's highest on the way: ${peak.toFixed(0)} MB. Target: at most 120 MB.\n`,
  );
}

await main();
