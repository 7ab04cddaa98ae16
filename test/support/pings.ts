/** What another client feels of the event loop meanwhile: how long small requests take in turn. */
import { setTimeout as sleep } from 'node:timers/promises';
import { RawConnection, request } from './raw-client.js';

export type Pings = { count: number; failed: number; medianMs: number; longestMs: number };

const PAUSE_MS = 10;

/** Small requests on one connection while `work` runs, and at least ten of them. */
export async function pingsDuring(port: number, work: () => Promise<unknown>): Promise<Pings> {
  const connection = await RawConnection.open(port);
  const took: number[] = [];
  let failed = 0;
  let over = false;
  const working = work().finally(() => (over = true));
  // Awaited below; a rejection meanwhile must not count as unowned.
  working.catch(() => undefined);
  while (!over || took.length < 10) {
    const from = performance.now();
    await connection.send(request({ target: '/ping' }));
    const answer = await connection.read({ timeoutMs: 20_000 });
    took.push(performance.now() - from);
    if (answer.status !== 200) failed += 1;
    if (answer.status === 0) break;
    await sleep(PAUSE_MS);
  }
  connection.destroy();
  await working;
  took.sort((a, b) => a - b);
  const at = (share: number): number => Math.round(took[Math.floor(share * (took.length - 1))] ?? 0);
  return { count: took.length, failed, medianMs: at(0.5), longestMs: at(1) };
}
