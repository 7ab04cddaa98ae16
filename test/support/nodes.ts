/** Several gates that share one Redis, as behind a load balancer: clients are told by X-Forwarded-For. */
import type { Test } from 'tap';
import { EchoUpstream } from './echo-upstream.js';
import { startGate, type ConfigTree, type Gate } from './gate.js';

/** True: the scenes at their whole size, which needs a machine with little else to do. */
export const FULL = process.env['TIDEGATE_TEST_FULL'] === '1';
/** Workers of each gate: two gates are to fit a small machine. */
export const WORKERS = FULL ? 4 : 2;

export async function startNodes(
  t: Test,
  count: number,
  config: ConfigTree,
  more: Readonly<Record<string, string>> = {},
): Promise<Gate[]> {
  const up = await EchoUpstream.start();
  up.keep = false;
  t.teardown(() => up.close());
  const tree = { workers: WORKERS, trustedProxies: ['127.0.0.1/32'], ...config };
  const env = { TIDEGATE_HASH_KEY: 'k'.repeat(64), ...more };
  const options = { upstream: up.url, env, readyTimeoutMs: 60_000 };
  const gates: Gate[] = [];
  for (let node = 0; node < count; node++) {
    const gate = await startGate(tree, options);
    t.teardown(() => gate.stop());
    gates.push(gate);
  }
  return gates;
}

/** Of the metrics page, over all workers; 0 where it is not there. Labels are part of the name. */
export async function metricOf(gate: Gate, name: string): Promise<number> {
  const text = await (await gate.admin('/metrics')).text();
  const line = text.split('\n').find((one) => one.startsWith(`tidegate_${name} `));
  return line === undefined ? 0 : Number(line.split(' ')[1]);
}

export async function storeState(gate: Gate): Promise<string> {
  const body = (await (await gate.admin('/readyz')).json()) as { limits?: { state?: string } };
  return String(body.limits?.state);
}
