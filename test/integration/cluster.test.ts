/** Supervisor and workers as processes: replacement, reload of all or none, drain, starts that must fail. */
import { createServer, type AddressInfo } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import t, { type Test } from 'tap';
import { bench, passes, until, type Bench } from '../support/case.js';
import { ok } from '../support/echo-upstream.js';
import { fullConfig, startGate, TOKEN, type ConfigTree, type Gate } from '../support/gate.js';
import { exchange, RawConnection, request } from '../support/raw-client.js';

type Controls = {
  mode: string;
  version: number;
  restarts: number;
  workers: { id: number; pid: number; ready: boolean; version: number }[];
};

const AUTHORIZED = { Authorization: `Bearer ${TOKEN}` };
const RESTART_MS = 15_000;

const controlsOf = async (gate: Gate): Promise<Controls> =>
  (await (await gate.admin('/controls')).json()) as Controls;

const pidsOf = async (gate: Gate): Promise<number[]> =>
  (await controlsOf(gate)).workers.map(({ pid }) => pid);

const post = (gate: Gate, path: string, body?: unknown): Promise<Response> =>
  gate.admin(path, {
    method: 'POST',
    headers: AUTHORIZED,
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  });

/** Asks again until the answer fits; the last answer otherwise. */
async function eventually<T>(ask: () => Promise<T>, fits: (answer: T) => boolean): Promise<T> {
  const untilMs = Date.now() + RESTART_MS;
  for (;;) {
    const answer = await ask();
    if (fits(answer) || Date.now() > untilMs) return answer;
    await sleep(50);
  }
}

const isAlive = (pid: number): boolean => {
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
};

async function requestsTotal(gate: Gate): Promise<number> {
  const text = await (await gate.admin('/metrics')).text();
  const series = [...text.matchAll(/^tidegate_requests_total\{[^}]*\} (\d+)/gm)];
  return series.reduce((sum, [, count]) => sum + Number(count), 0);
}

const statusOf = async ({ gate }: Bench, host = 'app.test'): Promise<number> =>
  (await exchange(gate.port, request({ host }))).status;

const withHosts = ({ up }: Bench, hosts: string[], more: ConfigTree = {}): ConfigTree =>
  fullConfig({ workers: 2, sites: [{ name: 'shop', hosts, upstreams: [up.url] }], ...more }, undefined);

t.test('all workers killed at once: both come back on the same port, and no counter falls', async (test) => {
  const at = await bench(test, { workers: 2 });
  for (let n = 0; n < 20; n++) await statusOf(at);
  const before = await eventually(
    () => requestsTotal(at.gate),
    (total) => total >= 20,
  );
  const old = await pidsOf(at.gate);
  for (const pid of old) process.kill(pid, 'SIGKILL');
  const now = await eventually(
    () => controlsOf(at.gate),
    ({ workers }) => workers.length === 2 && workers.every(({ pid, ready }) => ready && !old.includes(pid)),
  );
  test.equal(now.workers.filter(({ ready }) => ready).length, 2, 'two new workers listen');
  test.equal(now.restarts, 2, 'both deaths are counted');
  test.equal((await at.gate.admin('/readyz')).status, 200);
  await passes(test, 'on the port of before', at, {});
  const after = await eventually(
    () => requestsTotal(at.gate),
    (total) => total > before,
  );
  test.ok(after > before && after <= before + 3, 'the sum goes on', { before, after });
});

t.test('a worker that starts while the config changes ends up with the newest', async (test) => {
  const at = await bench(test, { workers: 2 });
  const [victim] = await pidsOf(at.gate);
  if (victim !== undefined) process.kill(victim, 'SIGKILL');
  const whole = ({ workers }: Controls): boolean => workers.filter(({ ready }) => ready).length === 2;
  for (let n = 0; n < 12; n++) {
    at.gate.writeConfig(withHosts(at, ['app.test', `h${n}.test`]));
    test.equal((await post(at.gate, '/reload')).status, 200, 'reloaded');
    await sleep(100);
  }
  const now = await eventually(
    () => controlsOf(at.gate),
    (state) => whole(state) && state.workers.every((worker) => worker.version === state.version),
  );
  test.strictSame(
    now.workers.map(({ version }) => version),
    [now.version, now.version],
  );
  const seen = await Promise.all(Array.from({ length: 8 }, () => statusOf(at, 'h11.test')));
  test.strictSame([...new Set(seen)], [200], 'every worker knows the last host');
});

t.test('a config that does not fit changes nothing and names every problem', async (test) => {
  const at = await bench(test, { workers: 2 });
  const before = await controlsOf(at.gate);
  at.gate.writeConfig('sites: 7\nnonsense: true\nworkers: -1\n');
  const answer = await post(at.gate, '/reload');
  test.equal(answer.status, 422);
  const text = await answer.text();
  for (const key of ['sites', 'nonsense', 'workers']) test.match(text, key, `${key} is named`);
  const after = await controlsOf(at.gate);
  test.equal(after.version, before.version, 'no new version');
  test.strictSame(after.workers, before.workers);
  await passes(test, 'traffic goes on', at, {});
  const metrics = await (await at.gate.admin('/metrics')).text();
  test.match(metrics, /^tidegate_reloads_refused 1$/m);
});

t.test('what needs a restart is named, the rest is taken over', async (test) => {
  const at = await bench(test, { workers: 2 });
  at.gate.writeConfig(withHosts(at, ['app.test', 'new.test'], { workers: 3, listen: '127.0.0.1:1' }));
  test.equal((await post(at.gate, '/reload')).status, 200);
  const named = (): boolean => at.gate.lines.some((line) => /listen, workers need a restart/.test(line));
  test.ok(await until(named), 'both keys are named');
  test.equal(await statusOf(at, 'new.test'), 200, 'the new host is known');
  test.equal((await controlsOf(at.gate)).workers.length, 2);
});

t.test('the mode is changed by hand until the next reload', async (test) => {
  const at = await bench(test, { workers: 2 });
  const attack = async (): Promise<number> => {
    const target = `/?q=${encodeURIComponent(`1' or 1=1 --`)}`;
    return (await exchange(at.gate.port, request({ target }))).status;
  };
  test.equal(await attack(), 403);
  test.equal((await at.gate.admin('/mode', { method: 'POST', body: '{"mode":"observe"}' })).status, 401);
  test.equal(await attack(), 403, 'not without the token');
  test.equal((await post(at.gate, '/mode', { mode: 'observe', site: 'nowhere' })).status, 404);
  test.equal((await post(at.gate, '/mode', { mode: 'observe' })).status, 200);
  const seen = await Promise.all([attack(), attack(), attack()]);
  test.strictSame(seen, [200, 200, 200], 'every worker observes');
  test.equal((await post(at.gate, '/reload')).status, 200);
  test.equal(await attack(), 403, 'the file holds again');
});

t.test('SIGTERM: what is under way ends well, idle connections close, nothing new is taken', async (test) => {
  const at = await bench(test, { workers: 2, timeouts: { drain: '5s' } });
  const idle = await RawConnection.open(at.gate.port);
  await idle.send(request());
  await idle.read();
  at.up.script = async () => {
    await sleep(1_000);
    return ok('whole');
  };
  const busy = await RawConnection.open(at.gate.port);
  const seen = at.up.completed;
  await busy.send(request());
  await until(() => at.up.completed > seen);
  at.gate.child.kill('SIGTERM');
  test.ok(await until(() => idle.closed, 800), 'the idle connection is closed at once');
  await test.rejects(RawConnection.open(at.gate.port), 'no new connection');
  test.equal((await at.gate.admin('/readyz')).status, 503, 'the balancer is told');
  const answer = await busy.read({ timeoutMs: 4_000 });
  test.equal(answer.status, 200);
  test.equal(answer.text(), 'whole');
  test.ok(await until(() => at.gate.exit !== undefined, 3_000), 'then the gate leaves');
  test.equal(at.gate.exit?.code, 0);
});

/** A request that the origin never answers. */
async function stuck(at: Bench): Promise<RawConnection> {
  at.up.script = async () => {
    await sleep(20_000, undefined, { ref: false });
    return ok('late');
  };
  const connection = await RawConnection.open(at.gate.port);
  const seen = at.up.completed;
  await connection.send(request());
  await until(() => at.up.completed > seen);
  return connection;
}

type End = { name: string; signals: NodeJS.Signals[]; drain: string; ms: number; code: number | null };

const ends: readonly End[] = [
  { name: 'the drain has an end', signals: ['SIGTERM'], drain: '500ms', ms: 4_000, code: 0 },
  { name: 'a second signal ends all', signals: ['SIGTERM', 'SIGINT'], drain: '30s', ms: 2_000, code: 1 },
  { name: 'workers follow the supervisor', signals: ['SIGKILL'], drain: '500ms', ms: 4_000, code: null },
];
for (const { name, signals, drain, ms, code } of ends) {
  t.test(`${name}, even with a request that never ends`, async (test) => {
    const at = await bench(test, { workers: 2, timeouts: { drain } });
    const connection = await stuck(at);
    const workers = await pidsOf(at.gate);
    test.equal(workers.length, 2);
    for (const signal of signals) {
      at.gate.child.kill(signal);
      await sleep(200);
    }
    const over = (): boolean => at.gate.exit !== undefined && !workers.some(isAlive);
    test.ok(await until(over, ms), 'nothing is left running');
    test.equal(at.gate.exit?.code, code);
    connection.destroy();
  });
}

/** A port that is taken for the length of the test. */
async function takenPort(test: Test): Promise<number> {
  const holder = createServer();
  await new Promise<void>((resolve) => holder.listen(0, '127.0.0.1', resolve));
  test.teardown(() => holder.close());
  return (holder.address() as AddressInfo).port;
}

type Misfit = {
  name: string;
  config: (port: number) => ConfigTree;
  env?: Record<string, string>;
  says: RegExp;
};

const misfits: readonly Misfit[] = [
  {
    name: 'the port of the gate is taken',
    config: (port) => ({ workers: 2, listen: `127.0.0.1:${port}` }),
    says: /ended[^]*cannot listen on 127[^]*what to do: choose another address/,
  },
  {
    name: 'the port of the admin listener is taken',
    config: (port) => ({ admin: { listen: `127.0.0.1:${port}` } }),
    says: /ended[^]*cannot listen on 127[^]*what to do: choose another address/,
  },
  {
    name: 'the admin listener is open to others without a token',
    config: () => ({ admin: { listen: '0.0.0.0:0' } }),
    env: { TIDEGATE_ADMIN_TOKEN: '' },
    says: /ended[^]*ADMIN_EXPOSED[^]*TIDEGATE_ADMIN_TOKEN/,
  },
];
for (const { name, config, env, says } of misfits) {
  t.test(`no start, and a word on what to do, where ${name}`, async (test) => {
    const port = await takenPort(test);
    await test.rejects(startGate(config(port), env === undefined ? {} : { env }), { message: says });
  });
}
