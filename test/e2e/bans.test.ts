/** Bans through the gate and its commands: made, obeyed at stage 1, shown, lifted, refused if they harm. */
import { spawn } from 'node:child_process';
import { resolve } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import t, { type Test } from 'tap';
import type { DecisionEvent } from '../../src/core/event.js';
import { observationOf } from '../../src/core/observation.js';
import { bench, requestIdOf, SQLI, until, type Bench } from '../support/case.js';
import type { Pair } from '../support/bytes.js';
import { ROOT, TOKEN } from '../support/gate.js';
import { exchange, request } from '../support/raw-client.js';

type Ended = Readonly<{ code: number | null; out: string; err: string }>;

function run({ gate }: Bench, command: string, args: readonly string[], token = TOKEN): Promise<Ended> {
  const fromSource = process.env['TIDEGATE_FROM'] === 'src';
  const main = fromSource
    ? ['--import', 'tsx', resolve(ROOT, 'src/main.ts')]
    : [resolve(ROOT, 'dist/src/main.js')];
  const common = ['-c', gate.configFile, '--admin', `http://127.0.0.1:${gate.adminPort}`];
  return new Promise((done) => {
    const child = spawn(process.execPath, [...main, command, ...args, ...common], {
      cwd: ROOT,
      env: { PATH: process.env['PATH'], TIDEGATE_ADMIN_TOKEN: token },
      timeout: 30_000,
    });
    let out = '';
    let err = '';
    child.stdout.on('data', (part: Buffer) => (out += part.toString()));
    child.stderr.on('data', (part: Buffer) => (err += part.toString()));
    child.once('close', (code) => done({ code, out, err }));
  });
}

const via = (ip: string): Pair[] => [['X-Forwarded-For', ip]];
const send = ({ gate }: Bench, ip: string, target = '/', headers: Pair[] = []) =>
  exchange(gate.port, request({ target, headers: [...via(ip), ...headers] }));
const statusOf = async (at: Bench, ip: string, headers: Pair[] = []): Promise<number> =>
  (await send(at, ip, '/', headers)).status;

/** As a script would, over the admin listener: quicker than the command. */
async function post({ gate }: Bench, path: string, body: Readonly<Record<string, unknown>>) {
  const answer = await gate.admin(path, {
    method: 'POST',
    headers: { Authorization: `Bearer ${TOKEN}` },
    body: JSON.stringify(body),
  });
  return { status: answer.status, body: (await answer.json()) as Record<string, unknown> };
}
const order = (given: Readonly<Record<string, unknown>>) => ({ for: '1h', reason: 'abuse', ...given });

const CONFIG = {
  workers: 2,
  trustedProxies: ['127.0.0.1'],
  reputation: {
    allowlist: 'allow.txt',
    ownAddresses: ['198.18.7.80'],
    points: { refusal: 50 },
    poll: '100ms',
  },
};
const FILES = { 'allow.txt': '198.51.100.9\n2001:db8:a::/48\n' };

t.test('bans', async (t) => {
  const stateDir = t.testdir();
  const config = { ...CONFIG, reputation: { ...CONFIG.reputation, stateDir } };
  const at = await bench(t, config, { files: FILES });
  await t.test('the commands: ban, bans, unban', (t) => commands(t, at));
  await t.test('a session is banned by its hash alone', (t) => sessions(t, at));
  await t.test('what would do harm is refused, and says why', (t) => harm(t, at));
  await t.test('an observed ban is written down, refuses nothing and stops nothing', (t) => observed(t, at));
  await t.test('keys, header hashes, upgrades', (t) => kinds(t, at));
  await t.test('it ends by itself; it raised the observed score once, its refusals did not', (t) => feedback(t, at));
  const metrics = await (await at.gate.admin('/metrics')).text();
  t.match(metrics, /tidegate_bans_active\{mode="enforce"\} [1-9]\d*\n/);
  t.match(metrics, /tidegate_bans_active\{mode="observe"\} 1\n/);

  await t.test('bans outlive workers and the gate', async (t) => {
    await post(at, '/bans', order({ address: '203.0.113.50' }));
    t.ok(await until(async () => (await statusOf(at, '203.0.113.50')) === 403));
    const before = at.gate.workers();
    for (const pid of before) process.kill(pid, 'SIGKILL');
    const replaced = (): boolean => at.gate.workers().filter((pid) => !before.includes(pid)).length === 2;
    t.ok(await until(replaced, 20_000));
    const first = async () => (await send(at, '203.0.113.50').catch(() => undefined))?.status ?? 0;
    let status = await first();
    for (let wait = 0; wait < 500 && status === 0; wait++) {
      await sleep(20);
      status = await first();
    }
    t.equal(status, 403, 'the first request of the new workers');
    await at.gate.stop();
    const again = await bench(t, config, { files: FILES });
    t.equal(await statusOf(again, '203.0.113.50'), 403, 'the first request of the new gate');
  });
});

async function commands(t: Test, at: Bench): Promise<void> {
  const ended = await run(at, 'ban', ['203.0.113.9', '--for', '2h', '--reason', 'abuse report 4711']);
  t.equal(ended.code, 0, ended.err);
  t.match(ended.out, /^banned 203\.0\.113\.9 until \d{4}-.*Z \((?:2 h|1 h 60 min)\)\n$/);
  t.ok(await until(async () => (await statusOf(at, '203.0.113.9')) === 403));
  t.equal(await statusOf(at, '203.0.113.10'), 200, 'the neighbour is served');
  const refused = await send(at, '203.0.113.9', '/banned');
  const event = await at.gate.event(({ path }) => path === '/banned');
  t.equal(event.requestId, requestIdOf(refused));
  t.match(event.reason, /^Banned until .*: abuse report 4711\.$/);
  t.match(event.steps[0]?.findings, [{ id: 'BAN', kind: 'deny' }]);
  t.equal(observationOf(event).refusal, 'ban');

  const [shown, wrong] = await Promise.all([
    run(at, 'bans', []),
    run(at, 'unban', ['203.0.113.0/24', '--reason', 'x']),
  ]);
  t.match(shown.out, /^subject +mode +since +until +left +strikes +by +reason\n/);
  t.match(shown.out, /203\.0\.113\.9 +enforce .* - +\S+@\S+ \(127\.0\.0\.1\) +abuse report 4711/);
  t.equal(wrong.code, 1);
  t.match(wrong.err, /no ban is in force on network:203\.0\.113\.0\/24/);
  const lifted = await run(at, 'unban', ['203.0.113.9', '--reason', 'a partner']);
  t.equal(lifted.code, 0, lifted.err);
  t.match(lifted.out, /^lifted the ban on 203\.0\.113\.9/);
  t.ok(await until(async () => (await statusOf(at, '203.0.113.9')) === 200));
  const [audit, bare] = await Promise.all([run(at, 'bans', ['--audit']), run(at, 'ban', ['--reason', 'x'])]);
  t.match(audit.out, /unban +network:203\.0\.113\.9 .* a partner/);
  t.equal(bare.code, 2, 'nobody named');
  t.match(bare.err, /name one/);
  const logged = at.gate.lines.filter((line) => line.includes('"audit":"bans.'));
  t.equal(logged.length, 2, 'each change is in the log');
}

async function sessions(t: Test, at: Bench): Promise<void> {
  const secret = 'sess-secret-4711';
  const made = await post(at, '/bans', order({ session: secret }));
  t.match(made.body, { ban: { subject: { kind: 'session', value: /^[\w-]{22}$/ } } });
  const cookie: Pair[] = [['Cookie', `sid=${secret}`]];
  t.ok(await until(async () => (await statusOf(at, '203.0.113.1', cookie)) === 403), 'from any address');
  t.equal(await statusOf(at, '203.0.113.1'), 200);
  const shown = await (await at.gate.admin('/bans')).text();
  t.notOk((shown + at.gate.lines.join('')).includes(secret), 'the secret is nowhere to be read');
  const open = await at.gate.admin('/bans', { method: 'POST', body: JSON.stringify(order({ session: 'x' })) });
  t.equal(open.status, 401, 'the token is needed');
}

async function harm(t: Test, at: Bench): Promise<void> {
  const rows: readonly [address: string, why: RegExp][] = [
    ['300.1.2.3', /found "300\.1\.2\.3"/],
    ['0.0.0.0/0', /is everybody/],
    ['::/0', /is everybody/],
    ['8.0.0.0/7', /wider than \/8/],
    ['2000::/16', /wider than \/17/],
    ['127.0.0.1', /127\.0\.0\.1.* our own/],
    ['198.18.7.0/24', /198\.18\.7\.80.* our own/],
    ['198.51.100.9', /on the allowlist/],
    ['2001:db8:a:1::5', /on the allowlist/],
    ['198.51.100.0/24', /holds 198\.51\.100\.9 of the allowlist/],
    ['2001:db8::/32', /holds 2001:db8:a::\/48 of the allowlist/],
  ];
  for (const [address, why] of rows) {
    const { status, body } = await post(at, '/bans', order({ address }));
    t.equal(status, 422, address);
    t.match(body['error'], why, address);
  }
  const bad: readonly [given: Readonly<Record<string, unknown>>, status: number][] = [
    [{ address: '203.0.113.1', for: 'long' }, 422],
    [{ address: '203.0.113.1', reason: ' ' }, 400],
    [{}, 400],
    [{ address: '203.0.113.1', key: 'k' }, 400],
    [{ address: '203.0.113.1', until: 'x' }, 400],
  ];
  for (const [given, status] of bad)
    t.equal((await post(at, '/bans', order(given))).status, status, JSON.stringify(given));
  const forced = await post(at, '/bans', order({ address: '198.51.100.0/24', force: true }));
  t.equal(forced.status, 200);
  t.ok(await until(async () => (await statusOf(at, '198.51.100.8')) === 403), 'the rest is banned');
  t.equal(await statusOf(at, '198.51.100.9'), 200, 'who is on the allowlist stays welcome');
  const inside = await post(at, '/bans/lift', { address: '198.51.100.8', reason: 'x' });
  t.match(inside.body['remedy'], /198\.51\.100\.0\/24/);
  at.gate.write('allow.txt', '198.51.100.9\n198.51.100.8\n');
  t.ok(await until(async () => (await statusOf(at, '198.51.100.8')) === 200, 10_000), 'and who comes onto it');
}

async function observed(t: Test, at: Bench): Promise<void> {
  await post(at, '/bans', order({ address: '203.0.113.20', observe: true }));
  const isBanned = ({ steps }: DecisionEvent): boolean =>
    steps[0]!.findings.some(({ id, observed }) => id === 'BAN' && observed === true);
  t.ok(
    await until(async () => {
      t.equal(await statusOf(at, '203.0.113.20'), 200);
      return at.gate.events(isBanned).length > 0;
    }),
  );
  const event = await at.gate.event(isBanned);
  t.match(event, { status: 200, score: 0 });
  t.match(event.steps[0]!.findings, [{ message: /^Would be banned until/ }]);
  t.equal(observationOf(event).refusal, 'ban', 'what the correlator reads');
  const attack = await send(at, '203.0.113.20', `/?q=${encodeURIComponent(SQLI)}`);
  t.equal(attack.status, 403, 'the rules still judge');
}

async function kinds(t: Test, at: Bench): Promise<void> {
  await post(at, '/bans', order({ key: 'key-secret-0815' }));
  const key: Pair[] = [['X-Api-Key', 'key-secret-0815']];
  t.ok(await until(async () => (await statusOf(at, '203.0.113.30', key)) === 403));
  const odd: Pair[] = [['X-Odd-Tool', '1']];
  await send(at, '203.0.113.31', '/odd', odd);
  const { client } = await at.gate.event(({ path }) => path === '/odd');
  await post(at, '/bans', order({ headers: client.headerHash }));
  t.ok(await until(async () => (await statusOf(at, '203.0.113.32', odd)) === 403));
  t.equal(await statusOf(at, '203.0.113.32'), 200);
  await post(at, '/bans', order({ address: '203.0.113.33' }));
  t.ok(await until(async () => (await statusOf(at, '203.0.113.33')) === 403));
  const upgrade = await send(at, '203.0.113.33', '/ws', [
    ['Connection', 'Upgrade'],
    ['Upgrade', 'websocket'],
    ['Sec-WebSocket-Key', 'dGhlIHNhbXBsZSBub25jZQ=='],
    ['Sec-WebSocket-Version', '13'],
  ]);
  t.equal(upgrade.status, 403, 'no tunnel either');
}

async function feedback(t: Test, at: Bench): Promise<void> {
  await post(at, '/bans', order({ address: '203.0.113.40', for: '3s' }));
  t.ok(await until(async () => (await statusOf(at, '203.0.113.40')) === 403, 2_900));
  for (let n = 0; n < 5; n++) await send(at, '203.0.113.40', `/?q=${encodeURIComponent(SQLI)}`);
  const refused = at.gate.events(({ client }) => client.ip === '203.0.113.40');
  t.ok(await until(async () => (await statusOf(at, '203.0.113.40')) === 200));
  await sleep(300);
  await send(at, '203.0.113.40', '/scored');
  const event = await at.gate.event(({ path }) => path === '/scored');
  const score = event.steps[0]!.findings.find(({ id }) => id === 'OBSERVED');
  const other = refused.filter(({ ruleIds }) => ruleIds.length > 0).length;
  if (other === 0) t.equal(score?.points, 40);
  t.ok((score?.points ?? 0) >= 40);
}
