/**
 * Two gates and a Redis Cluster under load: a slot moves with its keys, then a master is killed. Bounds, as
 * the README states them: Redis counts each request once, so that while it answers none passes above the
 * limit; a failover may lose the latest counts (its replication is asynchronous), at most what was counted
 * before it; while a gate takes Redis for away, its workers' parts add up to the limit once more under
 * `local`, and to nothing under `refuse`.
 */
import t from 'tap';
import { until } from '../support/case.js';
import { loadClient, paced, quantile, type LoadAnswer, type LoadSpec } from '../support/load.js';
import { startNodes, storeState, WORKERS } from '../support/nodes.js';
import { redisMissing } from '../support/redis.js';
import { startCluster, type RedisCluster } from '../support/redis-cluster.js';

const LIMIT = 120;
const PER_SECOND = 160;
const limit = `${LIMIT}/h`;
const policies = [
  { name: 'ingress', enabled: false },
  { name: 'api', enabled: false },
  { name: 'wide', limit: '100000/h', algorithm: 'fixed-window', exact: true },
  { name: 'open', match: { path: '/open' }, limit, algorithm: 'sliding-log', exact: true },
  { name: 'closed', match: { path: '/closed' }, limit, algorithm: 'sliding-counter', exact: true, onFailure: 'refuse' },
];

/** Addresses whose counters lie with the master wanted, `count` of them. */
async function addressesAt(cluster: RedisCluster, port: number, count: number): Promise<string[]> {
  const found: string[] = [];
  for (let at = 1; found.length < count; at++) {
    const address = `198.51.${100 + (at >> 8)}.${at & 255}`;
    if ((await cluster.masterOf(await cluster.slotOf(`{${address}}`))).port === port) found.push(address);
  }
  return found;
}

t.test('a slot that moves and a master that dies under load', { skip: redisMissing }, async (test) => {
  const cluster = await startCluster();
  test.teardown(() => cluster.stop());
  const [moving, dying] = [cluster.servers[0]!, cluster.servers[1]!];
  const redis = { cluster: [cluster.addresses[0]!, cluster.addresses[2]!], deadline: '2s' };
  const gates = await startNodes(test, 2, { redis, limits: { policies } });
  const [moved] = (await addressesAt(cluster, moving.port, 1)) as [string];
  const [open, closed, fresh] = (await addressesAt(cluster, dying.port, 3)) as [string, string, string];
  const specs: readonly Omit<LoadSpec, 'port'>[] = [
    { path: '/open', from: moved },
    { path: '/closed', from: moved },
    { path: '/open', from: open },
    { path: '/closed', from: closed },
  ];
  const client = loadClient(100);
  test.teardown(() => client.close());
  let turn = 0;
  let over = false;
  const next = (): LoadSpec => ({ ...specs[turn >> 1 & 3]!, port: gates[turn++ & 1]!.port });
  const load = paced(client, { perSecond: PER_SECOND, next, over: () => over });

  const slot = await cluster.slotOf(`{${moved}}`);
  const keysThere = async () => Number(await moving.client.call('CLUSTER', 'COUNTKEYSINSLOT', slot));
  test.ok(await until(async () => (await keysThere()) === 3, 15_000), 'the counters are where they should be');
  await cluster.moveSlot(slot, cluster.servers[2]!, () => pause(500));
  test.equal((await cluster.masterOf(slot)).port, cluster.servers[2]!.port, 'the slot has moved');
  await pause(500);
  const killedMs = performance.now();
  dying.process.kill('SIGKILL');
  const dead = await cluster.slotOf(`{${fresh}}`);
  const failedOver = async (): Promise<boolean> => (await cluster.masterOf(dead)).port !== dying.port;
  test.ok(await until(failedOver, 30_000), 'its replica has taken over');
  const failoverMs = performance.now() - killedMs;
  const served = async (gate: number): Promise<boolean> =>
    (await client.send({ port: gates[gate]!.port, path: '/closed', from: fresh })).status === 200;
  for (const gate of [0, 1]) test.ok(await until(() => served(gate), 30_000), `gate ${gate} serves again`);
  const resumedMs = performance.now() - killedMs;
  for (const gate of gates)
    test.ok(await until(async () => (await storeState(gate)) === 'ok', 15_000), 'and says so');
  test.ok(await until(() => turn > specs.length * (2 * LIMIT + 2), 30_000), 'all were asked often enough');
  await pause(500);
  over = true;
  const answers = await load;

  const odd = answers.filter(({ status }) => status !== 200 && status !== 429);
  test.same(odd, [], 'each is served or refused: no 5xx, none without an answer');
  const passed = (of: readonly LoadAnswer[]): number => of.filter(({ status }) => status === 200).length;
  const told: string[] = [];
  for (const { path, from } of specs) {
    const own = answers.filter((answer) => answer.path === path && answer.from === from);
    const lost = from === moved ? 0 : passed(own.filter(({ atMs }) => atMs <= killedMs));
    const local = path === '/open' ? LIMIT : 0;
    const most = LIMIT + Math.min(lost, LIMIT) + local;
    const name = `${path} ${from === moved ? 'in the slot that moved' : 'of the master that died'}`;
    test.ok(own.length > 2 * LIMIT, `${name}: ${own.length} asked`);
    test.ok(passed(own) >= LIMIT / 2 && passed(own) <= most, `${name}: ${passed(own)} pass, at most ${most}`);
    told.push(`${name}: ${passed(own)} of ${own.length} pass (limit ${LIMIT})`);
  }
  for (const gate of gates) test.equal(gate.stderr, '', 'nothing unhandled');
  const times = `p50 ${quantile(answers, 0.5).toFixed(1)} ms, p99 ${quantile(answers, 0.99).toFixed(0)} ms`;
  const seconds = `failover ${Math.round(failoverMs)} ms, served again ${Math.round(resumedMs)} ms after the kill`;
  test.comment([`${WORKERS} workers a gate, ${answers.length} requests, ${times}; ${seconds}`, ...told].join('\n'));
});

const pause = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));
