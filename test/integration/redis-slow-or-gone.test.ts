/**
 * F03 through a gate under load: Redis stopped, behind a silent line, slow, and its name gone. Nobody waits,
 * the open route holds its limit, the closed one is refused, and what was not asked is not asked later.
 */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import t from 'tap';
import { FULL } from '../support/nodes.js';
import { redisMissing, startRedis, type RedisServer } from '../support/redis.js';
import { startProxy } from '../support/redis-proxy.js';
import { scene, type Suffered, type Trouble } from '../support/trouble.js';

/** The name `cache.test` leads to this machine, until the file `gone` is there. */
const NAMES = (gone: string): string => `
import dns from 'node:dns';
import { existsSync } from 'node:fs';
const { lookup } = dns;
dns.lookup = (name, options, done) => {
  if (name !== 'cache.test') return lookup(name, options, done);
  if (!existsSync(${JSON.stringify(gone)})) return lookup('127.0.0.1', options, done);
  process.nextTick(done, Object.assign(new Error('getaddrinfo ENOTFOUND cache.test'), { code: 'ENOTFOUND' }));
};
`;
const PROBES_PER_SECOND = 20;
/** Of a gate as it is shipped, but on a busy machine every Redis is slower than that. */
const DEADLINE_MS = FULL ? 10 : 400;
const LATE_MS = Math.max(300, 3 * DEADLINE_MS);

const known = /cmdstat_evalsha:calls=(\d+)/;
const calls = async ({ client }: RedisServer): Promise<number> =>
  Number(known.exec(await client.info('commandstats'))?.[1] ?? 0);

t.test('Redis slow or unreachable', { skip: redisMissing }, async (test) => {
  const server = await startRedis();
  test.teardown(() => server.stop());
  const proxy = await startProxy(server.port);
  test.teardown(() => proxy.close());
  const folder = mkdtempSync(join(tmpdir(), 'tidegate-names-'));
  test.teardown(() => rmSync(folder, { recursive: true, force: true }));
  const [gone, names] = [join(folder, 'gone'), join(folder, 'names.mjs')];
  writeFileSync(names, NAMES(gone));
  const env = { NODE_OPTIONS: `--import=${pathToFileURL(names).href}` };
  const redis = { url: `redis://cache.test:${proxy.port}`, deadline: `${DEADLINE_MS}ms` };
  const at = await scene(test, redis, env);

  const troubles: Trouble[] = [
    {
      name: 'stopped',
      away: true,
      begin: () => void server.process.kill('SIGSTOP'),
      end: () => void server.process.kill('SIGCONT'),
    },
    { name: 'silent line', away: true, begin: () => proxy.swallow(true), end: () => proxy.swallow(false) },
    { name: `${LATE_MS} ms late`, away: true, begin: () => proxy.delay(LATE_MS), end: () => proxy.delay(0) },
    {
      name: 'name gone',
      away: true,
      begin: () => (writeFileSync(gone, ''), proxy.cut()),
      end: () => rmSync(gone),
    },
  ];
  for (const trouble of troubles) {
    const before = await calls(server);
    const { asking, lastedMs }: Suffered = await at.suffer(trouble);
    const asked = (await calls(server)) - before;
    const probes = (lastedMs / 1000) * PROBES_PER_SECOND + 100;
    test.ok(asked <= asking + probes, `${trouble.name}: ${asked} calls came, none of those that were not asked`);
  }
});
