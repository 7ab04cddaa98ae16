/** A gate with two workers under steady load, while something happens to its Redis and passes again. */
import { setTimeout as sleep } from 'node:timers/promises';
import type { Test } from 'tap';
import { until } from './case.js';
import type { Gate } from './gate.js';
import { loadClient, paced, quantile, type LoadAnswer, type LoadClient, type LoadSpec } from './load.js';
import { FULL, metricOf, startNodes, storeState } from './nodes.js';

const PER_SECOND = FULL ? 300 : 100;
const OPEN_LIMIT = 40;
/** No limit counts `/plain`: what it takes is what the gate and this machine take. */
const PATHS = ['/free', '/open', '/plain', '/closed'];
const WORKERS = 2;
/** How long each trouble lasts. */
const SECONDS = FULL ? 10 : 3;

export type Trouble = Readonly<{
  name: string;
  /** Whether Redis cannot be asked meanwhile, or goes on serving. */
  away: boolean;
  /** How often at most Redis may lose a counter by it. */
  forgets?: number;
  begin(): Promise<unknown> | void;
  end(): Promise<unknown> | void;
}>;

export type Scene = Readonly<{ gate: Gate; suffer(trouble: Trouble): Promise<Suffered> }>;

export type Suffered = Readonly<{
  /** Requests sent while Redis was asked: before the breakers opened, and after the trouble ended. */
  asking: number;
  lastedMs: number;
}>;

const limits = {
  policies: [
    { name: 'ingress', enabled: false },
    { name: 'api', enabled: false },
    { name: 'free', match: { path: '/free' }, limit: '100000/h', exact: true },
    { name: 'open', match: { path: '/open' }, limit: `${OPEN_LIMIT}/h`, exact: true },
    { name: 'closed', match: { path: '/closed' }, limit: '100000/h', exact: true, onFailure: 'refuse' },
  ],
};

export async function scene(
  t: Test,
  redis: object,
  env: Readonly<Record<string, string>> = {},
): Promise<Scene> {
  const [gate] = (await startNodes(t, 1, { workers: WORKERS, redis, limits }, env)) as [Gate];
  const client = loadClient(200);
  t.teardown(() => client.close());
  let turns = 0;
  return { gate, suffer: (trouble) => suffer(t, { gate, client, from: `198.51.100.${++turns}` }, trouble) };
}

type Run = Readonly<{ gate: Gate; client: LoadClient; from: string }>;
type Times = Readonly<{ beganMs: number; openMs: number; endedMs: number; wellMs: number }>;

async function suffer(t: Test, { gate, client, from }: Run, trouble: Trouble): Promise<Suffered> {
  let turn = 0;
  let over = false;
  const next = (): LoadSpec => ({ port: gate.port, path: PATHS[turn++ % PATHS.length]!, from });
  const well = async (): Promise<boolean> => (await storeState(gate)) === 'ok';
  const open = async (): Promise<boolean> => (await metricOf(gate, 'redis_state{state="open"}')) === WORKERS;
  t.ok(await until(well, 30_000), `${trouble.name}: well before it`);
  const load = paced(client, { perSecond: PER_SECOND, next, over: () => over });
  await sleep(700);
  const [beganMs, beforeMiB] = [performance.now(), gate.workerMemoryMiB()];
  await trouble.begin();
  if (trouble.away) t.ok(await until(open, 15_000), `${trouble.name}: all breakers opened`);
  const openMs = performance.now();
  const lastMs = (trouble.away ? SECONDS : SECONDS / 3) * 1000;
  await sleep(Math.max(500, lastMs - (openMs - beganMs)));
  const [endedMs, afterMiB] = [performance.now(), gate.workerMemoryMiB()];
  await trouble.end();
  t.ok(await until(well, 30_000), `${trouble.name}: well again`);
  const wellMs = performance.now();
  await sleep(500);
  over = true;
  const answers = await load;
  judge(t, { trouble, answers, times: { beganMs, openMs, endedMs, wellMs } });
  t.equal(gate.stderr, '', `${trouble.name}: nothing unhandled`);
  const grownMiB = Math.round(afterMiB - beforeMiB);
  t.ok(grownMiB < 60, `${trouble.name}: memory stays (${grownMiB} MiB more)`);
  const left = answers.filter(within(openMs, endedMs)).length;
  return { asking: answers.length - left, lastedMs: wellMs - beganMs };
}

const within =
  (fromMs: number, toMs: number) =>
  ({ atMs }: LoadAnswer): boolean =>
    atMs >= fromMs && atMs < toMs;

type Judged = Readonly<{ trouble: Trouble; answers: readonly (LoadAnswer & LoadSpec)[]; times: Times }>;

function judge(t: Test, { trouble: { name, away, forgets = 0 }, answers, times }: Judged): void {
  const { beganMs, openMs, endedMs, wellMs } = times;
  const of = (path: string) => answers.filter((answer) => answer.path === path);
  const odd = answers.filter(({ status }) => status !== 200 && status !== 429);
  t.same(odd, [], `${name}: each is served or refused`);
  const passed = of('/open').filter(({ status }) => status === 200).length;
  const most = OPEN_LIMIT * (1 + Number(away) + forgets);
  t.ok(passed <= most, `${name}: open route: ${passed} of ${of('/open').length} pass, at most ${most}`);
  const kept = of('/free').filter(({ status }) => status !== 200);
  t.same(kept, [], `${name}: who is under the limit passes`);
  // Answered before the end, too: on a busy machine a request may reach the gate long after it was sent.
  const answered = ({ atMs, tookMs }: LoadAnswer): boolean => atMs + tookMs < endedMs;
  const closed = of('/closed').filter(within(openMs, endedMs)).filter(answered);
  const wanted = away ? 429 : 200;
  const other = closed.filter(({ status }) => status !== wanted);
  t.same(other, [], `${name}: the closed route says ${wanted}`);
  const during = (path: string) => of(path).filter(within(beganMs, endedMs));
  const [plain, free] = [during('/plain'), during('/free')];
  t.ok(quantile(free, 0.5) < 2 * quantile(plain, 0.5) + 100, `${name}: nobody waits for Redis`);
  const waits = [0.5, 0.95, 0.99].map((share) => {
    return `p${share * 100} ${quantile(plain, share).toFixed(1)} → ${quantile(free, share).toFixed(1)} ms`;
  });
  const opened = away ? `open after ${Math.round(openMs - beganMs)} ms, ` : '';
  const well = `well ${Math.round(wellMs - endedMs)} ms after its end`;
  t.comment(`${name}: ${answers.length} requests, without a limit → with: ${waits.join(', ')}; ${opened}${well}; ${passed} pass`);
}
