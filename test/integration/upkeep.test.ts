/** What operators lean on while the gate runs: hung workers, feeds, the log's place, who a decision names. */
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { bench, FORM, JSON_TYPE, until, type Bench } from '../support/case.js';
import type { Gate } from '../support/gate.js';
import { exchange, request } from '../support/raw-client.js';

type Controls = { restarts: number; hung: number; workers: { pid: number; ready: boolean }[] };

const controlsOf = async (gate: Gate): Promise<Controls> =>
  (await (await gate.admin('/controls')).json()) as Controls;
const metricsOf = async (gate: Gate): Promise<string> => (await gate.admin('/metrics')).text();

t.test('a worker that hangs is killed and replaced; a busy one is not', async (test) => {
  const { gate } = await bench(test, { workers: 2, timeouts: { worker: '3s' } });
  const before = (await controlsOf(gate)).workers.map(({ pid }) => pid);
  const [victim, other] = before;
  if (victim === undefined || other === undefined) throw new Error('two workers are needed');
  // Requests all the while: the one that lives is busy, and stays.
  let over = false;
  const traffic = (async () => {
    while (!over) await exchange(gate.port, request(), { timeoutMs: 500 }).catch(() => undefined);
  })();
  process.kill(victim, 'SIGSTOP');
  const replaced = await until(async () => {
    const { workers } = await controlsOf(gate);
    return workers.length === 2 && workers.every(({ pid, ready }) => ready && pid !== victim);
  }, 40_000);
  over = true;
  await traffic;
  if (!replaced) process.kill(victim, 'SIGKILL');
  test.ok(replaced, 'another worker took the place');
  const now = await controlsOf(gate);
  test.ok(now.workers.some(({ pid }) => pid === other), 'the busy one is still there');
  test.strictSame([now.hung, now.restarts], [1, 1], 'counted');
  test.match(await metricsOf(gate), /^tidegate_worker_hangs 1$/m);
  test.ok(
    await until(() => gate.lines.some((line) => line.includes('WORKER_HUNG') && line.includes(`${victim}`))),
    'and logged',
  );
});

t.test('a worker that was stopped for a moment stays', async (test) => {
  const { gate } = await bench(test, { timeouts: { worker: '20s' } });
  const [before] = (await controlsOf(gate)).workers;
  process.kill(before!.pid, 'SIGSTOP');
  await new Promise((resolve) => setTimeout(resolve, 1_500));
  process.kill(before!.pid, 'SIGCONT');
  test.equal((await exchange(gate.port, request())).status, 200);
  const now = await controlsOf(gate);
  test.strictSame([now.workers[0]?.pid, now.hung], [before!.pid, 0]);
});

t.test('feeds: age, entries and the last error; one that never loaded holds nothing up', async (test) => {
  const { gate } = await bench(
    test,
    {
      reputation: {
        blocklist: 'block.txt',
        tor: { url: 'http://127.0.0.1:9/none', timeout: '1s' },
      },
    },
    { files: { 'block.txt': '192.0.2.7\n192.0.2.8\n' } },
  );
  type Ready = { status: string; feeds: { feed: string; state: string }[] };
  let ready: Ready = { status: '', feeds: [] };
  const told = await until(async () => {
    await metricsOf(gate);
    const answer = await gate.admin('/readyz');
    test.equal(answer.status, 200, 'ready');
    ready = (await answer.json()) as Ready;
    return ready.feeds[0]?.state === 'ok';
  }, 20_000);
  test.ok(told, 'the worker told of its feeds');
  test.match(ready, {
    status: 'ready',
    feeds: [
      { feed: 'blocklist', state: 'ok', entries: 2, lastSuccess: /^\d{4}-/, lastError: null },
      { feed: 'tor', state: 'waiting', entries: 0, lastSuccess: null, ageSeconds: null, lastError: String },
    ],
  });
  const text = await metricsOf(gate);
  test.match(text, /^tidegate_feed_age_seconds\{feed="blocklist"\} \d+$/m);
  test.match(text, /^tidegate_feed_age_seconds\{feed="tor"\} -1$/m);
  test.match(text, /^tidegate_feed_entries\{feed="blocklist"\} 2$/m);
  test.match(text, /^tidegate_feed_ok\{feed="tor"\} 0$/m);
  test.match(text, /^tidegate_rule_set_overflows 0$/m);
});

t.test('with log.file every line goes there, except that the gate is ready', async (test) => {
  const { gate } = await bench(test, { log: { file: 'gate.log' } });
  const file = join(gate.folder, 'gate.log');
  gate.reload();
  const logged = (): string => (existsSync(file) ? readFileSync(file, 'utf8') : '');
  test.ok(await until(() => /"msg":"reloaded"/.test(logged()), 10_000), "the supervisor's own line");
  await exchange(gate.port, request());
  test.ok(await until(() => /"requestId"/.test(logged())), "and the workers' decisions");
  test.strictSame(gate.lines.filter((line) => !/"msg":"ready"/.test(line)), [], 'standard output stays quiet');
});

t.test('a decision names the user by a hash: from the header, else from the body', async (test) => {
  const at: Bench = await bench(test, {
    identity: { user: { header: 'x-user', jsonField: ['username', 'email'] } },
  });
  const userOf = async (target: string, spec: Parameters<typeof request>[0]): Promise<string | undefined> => {
    await exchange(at.gate.port, request({ ...spec, target }));
    return (await at.gate.event(({ path }) => path === target)).client.user;
  };
  const post = { method: 'POST', body: '{"username":"Anna"}' };
  const byHeader = await userOf('/a', { headers: [['X-User', 'anna']] });
  const byJson = await userOf('/b', { ...post, headers: [JSON_TYPE] });
  const byForm = await userOf('/c', { method: 'POST', body: 'email=anna', headers: [FORM] });
  const other = await userOf('/d', { ...post, headers: [['X-User', 'bert'], JSON_TYPE] });
  test.match(byHeader, /^[\w-]{22}$/, 'a keyed hash, never the name');
  test.strictSame([byJson, byForm], [byHeader, byHeader], 'the same user hashes alike wherever it stands');
  test.not(other, byHeader, 'the header goes before the body');
  test.equal(await userOf('/e', {}), undefined);
});
