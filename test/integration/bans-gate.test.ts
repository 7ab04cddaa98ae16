/** A real gate with the bans in a real Redis: it follows, and keeps them where Redis does not. */
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { network, RULES, told } from '../../src/controls/testing.js';
import { redisBook } from '../support/bans.js';
import { bench, until } from '../support/case.js';
import { fullConfig, TOKEN } from '../support/gate.js';
import { exchange, request } from '../support/raw-client.js';
import { redisMissing, startRedis } from '../support/redis.js';

const BY = { actor: 'ann@desk', reason: 'mistake' };
/** So that what comes must have been told. */
const BASE = { trustedProxies: ['127.0.0.1'], bans: { poll: '60s', stateFile: 'bans.jsonl' } };

t.test('a gate that follows the bans in Redis', { skip: redisMissing }, async (t) => {
  const server = await startRedis();
  t.teardown(() => server.stop());
  const url = `redis://127.0.0.1:${server.port}`;
  const at = await bench(t, BASE);
  const { gate } = at;
  const statusOf = async (ip: string): Promise<number> => {
    const headers = [['X-Forwarded-For', ip]] as const;
    return (await exchange(gate.port, request({ headers }))).status;
  };
  const turns = (ip: string, status: number): Promise<boolean> =>
    until(async () => (await statusOf(ip)) === status, 10_000);
  const post = (address: string) =>
    gate.admin('/bans', {
      method: 'POST',
      headers: { Authorization: `Bearer ${TOKEN}` },
      body: JSON.stringify({ address, for: '1h', reason: 'abuse' }),
    });
  const reload = async (given: Readonly<Record<string, unknown>>): Promise<void> => {
    const before = gate.lines.length;
    gate.writeConfig(fullConfig({ ...BASE, ...given, listen: `127.0.0.1:${gate.port}` }, at.up.url));
    gate.reload();
    const isReloaded = (): boolean => gate.lines.slice(before).some((line) => line.includes('"reloaded"'));
    t.ok(await until(isReloaded, 20_000), 'reloaded');
  };
  const book = await redisBook(t, { url }, { rules: { ...RULES, base: 600_000 } });
  const values = async () => (await book.read()).bans.map(({ subject }) => subject.value).sort();
  const ban = (ip: string) => book.ban([told(600_000, { subject: network(ip) })]);

  t.equal((await post('203.0.113.1')).status, 200, 'a ban while there is no Redis');
  t.ok(await turns('203.0.113.1', 403));
  await reload({ redis: { url, deadline: '1s' } });
  t.equal(await statusOf('203.0.113.1'), 403, 'a reload to Redis keeps it');
  t.ok(await until(async () => (await values()).includes('203.0.113.1')), 'and takes it along');

  t.ok(await until(async () => (await server.client.pubsub('NUMSUB', '{bans}:changes'))[1] === 1));
  const startedMs = performance.now();
  await ban('203.0.113.2');
  t.ok(await turns('203.0.113.2', 403), 'made by another: the next request is refused');
  t.comment(`told within ${Math.round(performance.now() - startedMs)} ms`);
  await book.unban(network('203.0.113.2'), BY);
  t.ok(await turns('203.0.113.2', 200), 'lifted by another');
  t.equal((await post('203.0.113.3')).status, 200);
  t.ok((await values()).includes('203.0.113.3'), 'what this gate bans is in the book');

  await reload({ redis: { url, deadline: '1s' }, bans: { poll: '300ms', stateFile: 'bans.jsonl' } });
  await server.client.call('CLIENT', 'KILL', 'TYPE', 'pubsub');
  await ban('203.0.113.4');
  t.ok(await turns('203.0.113.4', 403), 'the line was cut: it is found by looking');
  await server.client.flushall();
  t.ok(await until(async () => (await values()).length === 3, 10_000), 'flushed: put back');
  t.equal(await statusOf('203.0.113.4'), 403);

  await server.stop();
  t.equal(await statusOf('203.0.113.4'), 403, 'Redis is gone: the bans hold');
  const refused = await post('203.0.113.5');
  t.equal(refused.status, 422);
  t.match(await refused.json(), { code: /^REDIS_/, error: /Redis/ });
  const shown = (await (await gate.admin('/bans')).json()) as { total: number; notes: string[] };
  t.equal(shown.total, 3);
  t.match(shown.notes, [/cannot be read/]);
  const lines = gate.lines.filter((line) => line.includes('the last list holds'));
  t.ok(lines.length <= 1, 'told once');

  const file = join(gate.folder, 'bans.jsonl');
  t.ok(await until(() => existsSync(file) && readFileSync(file, 'utf8').includes('203.0.113.4')));
  const files = { 'bans.jsonl': readFileSync(file) };
  await gate.stop();
  const again = await bench(t, { ...BASE, redis: { url, deadline: '1s' } }, { files });
  const headers = [['X-Forwarded-For', '203.0.113.4']] as const;
  const { status } = await exchange(again.gate.port, request({ headers }));
  t.equal(status, 403, 'a gate that starts without Redis has its bans');
});
