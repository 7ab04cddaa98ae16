/** Every way to reach Redis, for real: TLS with a client certificate, an ACL user, Sentinel, a Cluster. */
import { execFileSync, spawn } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Redis } from 'ioredis';
import t from 'tap';
import { Fault } from '../../src/core/errors.js';
import { redisSection } from '../../src/redis/config.js';
import { redisSettings } from '../../src/redis/settings.js';
import { subscribeRedis } from '../../src/redis/subscriber.js';
import { freePort, redisMissing, startRedis } from '../support/redis.js';
import { openShared, until } from '../support/shared-store.js';

const options = { skip: redisMissing };
const folder = mkdtempSync(join(tmpdir(), 'tidegate-tls-'));
t.teardown(() => rmSync(folder, { recursive: true, force: true }));
const breaker = { failures: 3, probeEvery: '40ms', ramp: '20ms' };

t.test('an ACL user; a wrong password is told without it', options, async (t) => {
  const server = await startRedis();
  t.teardown(() => server.stop());
  await server.client.call('ACL', 'SETUSER', 'gate', 'on', '>open-sesame', '~shop:rl:*', '+@all');
  const section = { url: `redis://127.0.0.1:${server.port}`, username: 'gate', passwordEnv: 'P' };
  const right = await openShared({ ...section, keyPrefix: 'shop:' }, { environment: { P: 'open-sesame' } });
  t.equal(await right.hit('a'), 'passed');
  t.same(await server.client.keys('*'), ['shop:rl:ip:{a}:test/fixed-window/60000']);
  await right.close();
  const outside = await openShared(section, { environment: { P: 'open-sesame' } });
  t.match(await outside.hit('a'), { code: 'REDIS_AUTH' }, 'keys that are not its own');
  await outside.close();
  const wrong = await openShared(section, { environment: { P: 'wrong-secret' } });
  const fault = await wrong.hit('a');
  t.match(fault, { code: 'REDIS_AUTH' });
  t.notMatch(JSON.stringify(fault) + String((fault as Fault).message), /wrong-secret/);
  await wrong.close();
});

t.test('the database it names, and never another one', options, async (t) => {
  const server = await startRedis();
  t.teardown(() => server.stop());
  const url = `redis://127.0.0.1:${server.port}`;
  const third = await openShared({ url: `${url}/3`, breaker });
  t.ok(await until(async () => (await third.hit('a')) === 'passed'), 'database 3 counts');
  await third.close();
  const none = await openShared({ url: `${url}/99`, breaker });
  t.match(await none.hit('a'), { code: 'REDIS_DATABASE' });
  await none.close();
  t.equal(await server.client.dbsize(), 0, 'nothing is counted in database 0');
});

t.test('TLS: a trusted certificate is taken, any other refused', options, async (t) => {
  const [key, cert] = [join(folder, 'key.pem'), join(folder, 'cert.pem')];
  const subject = ['-subj', '/CN=localhost', '-addext', 'subjectAltName=IP:127.0.0.1,DNS:localhost'];
  const made = ['req', '-x509', '-newkey', 'rsa:2048', '-nodes', '-keyout', key, '-out', cert, '-days', '2'];
  execFileSync('openssl', [...made, ...subject], { stdio: 'ignore' });
  const port = await freePort();
  const tls = ['--tls-port', String(port), '--tls-cert-file', cert, '--tls-key-file', key];
  const server = await startRedis([...tls, '--tls-ca-cert-file', cert]);
  t.teardown(() => server.stop());
  const section = { url: `rediss://127.0.0.1:${port}`, breaker };
  const files = { ca: 'cert.pem', cert: 'cert.pem', key: 'key.pem' };
  const shared = await openShared({ ...section, tls: files }, { baseDir: folder });
  t.equal(await shared.hit('a'), 'passed');
  await shared.close();
  const doubting = await openShared(section);
  t.match(await doubting.hit('a'), { code: 'REDIS_UNREACHABLE', message: /certificate/ });
  await doubting.close();
});

t.test('Sentinel: the master it names is asked, and the next one after it', options, async (t) => {
  const [first, second] = [await startRedis(), await startRedis()];
  t.teardown(() => Promise.all([first.stop(), second.stop()]));
  await second.client.call('REPLICAOF', '127.0.0.1', String(first.port));
  const port = await freePort();
  const file = join(folder, 'sentinel.conf');
  const lines = [`port ${port}`, 'bind 127.0.0.1', `sentinel monitor main 127.0.0.1 ${first.port} 1`];
  const times = ['sentinel down-after-milliseconds main 500', 'sentinel failover-timeout main 2000'];
  writeFileSync(file, [...lines, ...times, ''].join('\n'));
  const sentinel = spawn('redis-server', [file, '--sentinel'], { stdio: 'ignore' });
  t.teardown(() => void sentinel.kill('SIGKILL'));
  t.ok(
    await until(() => /slave0|known-replica/.test(readFileSync(file, 'utf8')), 20_000),
    'replica is known',
  );
  const section = { sentinel: { name: 'main', addresses: [`127.0.0.1:${port}`] }, breaker };
  const shared = await openShared(section);
  const heard: string[] = [];
  const settings = redisSettings(redisSection.parse(section)!, { baseDir: '/' });
  const line = subscribeRedis(settings, 'news', (text) => void heard.push(text));
  t.teardown(() => line.close());
  t.ok(await until(line.listening), 'subscribed at the master');
  t.ok(await until(async () => (await shared.hit('a')) === 'passed'));
  first.process.kill('SIGKILL');
  t.ok(await until(async () => (await shared.hit('b')) instanceof Fault), 'away meanwhile');
  t.ok(await until(async () => (await shared.hit('b')) === 'passed', 30_000), 'the next one serves');
  const teller = new Redis(second.port, '127.0.0.1');
  t.teardown(() => teller.disconnect());
  const isHeard = async (): Promise<boolean> => {
    await teller.publish('news', 'x');
    return heard.length > 0;
  };
  t.ok(await until(isHeard, 30_000), 'and is listened to');
  await shared.close();
});

t.test('Cluster: slots that move are followed, a master that dies costs its slots', options, async (t) => {
  const enabled = ['--cluster-enabled', 'yes', '--cluster-node-timeout', '1000'];
  const make = (at: number) => {
    const file = ['--cluster-config-file', `nodes-${at}.conf`];
    return startRedis([...enabled, ...file, '--cluster-require-full-coverage', 'no']);
  };
  const servers = await Promise.all([0, 1, 2].map(make));
  t.teardown(() => Promise.all(servers.map((server) => server.stop())));
  const addresses = servers.map(({ port }) => `127.0.0.1:${port}`);
  const create = ['--cluster', 'create', ...addresses, '--cluster-yes'];
  execFileSync('redis-cli', create, { timeout: 60_000, stdio: 'ignore' });
  const shared = await openShared({ cluster: [addresses[0]!], breaker });
  t.ok(await until(async () => (await shared.hit('warm')) === 'passed', 20_000));
  const atOnce = (count: number) =>
    Promise.all(Array.from({ length: count }, (_, at) => shared.hit(`k${at % 30}`, { limit: 5 })));
  const hits = await atOnce(300);
  t.equal(hits.filter((hit) => hit === 'passed').length, 150, 'exact over all masters');
  const [from, to] = [servers[0]!, servers[1]!];
  const idOf = async ({ client }: typeof from) => String(await client.call('CLUSTER', 'MYID'));
  const [fromId, toId] = [await idOf(from), await idOf(to)];
  const move = ['--cluster', 'reshard', addresses[0]!, '--cluster-from', fromId, '--cluster-to', toId];
  move.push('--cluster-slots', '2000', '--cluster-yes');
  execFileSync('redis-cli', move, { timeout: 60_000, stdio: 'ignore' });
  t.same([...new Set(await atOnce(60))], ['refused'], 'moved counters hold (MOVED)');
  servers[2]!.process.kill('SIGKILL');
  const ends = await Promise.all(Array.from({ length: 60 }, (_, at) => shared.hit(`n${at}`)));
  t.ok(
    ends.every((end) => end === 'passed' || end instanceof Fault),
    'a failure, never a silent consent',
  );
  await shared.close();
});
