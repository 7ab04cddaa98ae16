/** Public hard case D08 with a name server of its own: an origin moves, or its addresses cannot be had. */
import { setTimeout as sleep } from 'node:timers/promises';
import t, { type Test } from 'tap';
import { bench, until, type Bench } from '../support/case.js';
import { DnsServer } from '../support/dns-server.js';
import { EchoUpstream, ok } from '../support/echo-upstream.js';
import { fullConfig, type ConfigTree } from '../support/gate.js';
import { pingsDuring } from '../support/pings.js';
import { exchange, RawConnection, request } from '../support/raw-client.js';

const FIRST = '127.0.0.1';
const SECOND = '127.0.0.2';
const NAME = 'up.test';

type Origins = Bench & { dns: DnsServer; first: EchoUpstream; second: EchoUpstream; config: ConfigTree };

/** One port on two addresses; the name leads to the first. */
async function origins(test: Test): Promise<Origins> {
  const dns = await DnsServer.start();
  test.teardown(() => dns.close());
  const first = await EchoUpstream.start();
  const second = await EchoUpstream.start(first.port, SECOND);
  test.teardown(() => first.close());
  test.teardown(() => second.close());
  dns.records.set(NAME, [FIRST]);
  const config = {
    sites: [{ name: 'shop', hosts: ['app.test'], upstreams: [`http://${NAME}:${first.port}`] }],
    dns: { servers: [dns.address], refresh: '200ms' },
  };
  return { ...(await bench(test, config)), dns, first, second, config };
}

async function get({ gate }: Bench, target = '/'): Promise<number> {
  return (await exchange(gate.port, request({ target }))).status;
}

async function metricsOf({ gate }: Bench): Promise<string> {
  return (await gate.admin('/metrics')).text();
}

t.test('D08 (a): the old address refuses', async (test) => {
  const at = await origins(test);
  test.equal(await get(at), 200, 'control: served by the first');
  test.equal(at.first.completed, 1, 'at the first address');
  at.dns.records.set(NAME, [SECOND]);
  await at.first.close();
  test.ok(await until(async () => (await get(at)) === 200), 'served again without a restart');
  const before = at.second.completed;
  for (let n = 0; n < 10; n++) test.equal(await get(at, `/${n}`), 200, 'and from then on always');
  test.equal(at.second.completed, before + 10, 'by the second address');
});

t.test('D08 (b, e): the old address is another application now', async (test) => {
  const at = await origins(test);
  at.first.script = async () => {
    await sleep(100);
    return ok('first');
  };
  // Kept-alive connections to the first stay open and healthy.
  await Promise.all(Array.from({ length: 20 }, () => get(at)));
  test.ok(at.first.open > 5, 'control: a pool of connections', { open: at.first.open });
  at.first.script = async () => {
    await sleep(1200);
    return ok('late but whole');
  };
  const underWay = exchange(at.gate.port, request({ target: '/slow' }), { timeoutMs: 10_000 });
  await until(() => at.first.requests.some(({ target }) => target === '/slow'));
  at.dns.records.set(NAME, [SECOND]);
  test.ok(await until(async () => (await get(at)) === 200 && at.second.completed > 0), 'the second is used');
  const seen = at.first.requests.length;
  const statuses = await Promise.all(Array.from({ length: 40 }, (_, n) => get(at, `/after/${n}`)));
  test.ok(statuses.every((status) => status === 200), 'everything is served', { statuses });
  test.equal(at.first.requests.length, seen, 'the first gets nothing any more');
  test.equal((await underWay).text(), 'late but whole', 'what was under way there ends whole');
  test.ok(await until(() => at.first.open === 0, 8000), 'then its connections are gone', {
    open: at.first.open,
  });
});

t.test('D08 (c): the name server fails', async (test) => {
  const at = await origins(test);
  test.equal(await get(at), 200, 'control');
  for (const mode of ['broken', 'silent'] as const) {
    at.dns.mode = mode;
    const asked = at.dns.queries;
    await until(() => at.dns.queries > asked + 2, 8000);
    test.equal(await get(at), 200, `${mode}: the last good address stays`);
    const before = at.gate.lines.length;
    at.gate.writeConfig({ ...fullConfig(at.config, undefined), mode: 'observe' });
    at.gate.reload();
    const reloaded = () => at.gate.lines.slice(before).some((line) => line.includes('"reloaded"'));
    test.ok(await until(reloaded, 20_000), `${mode}: a reload meanwhile is taken`);
    test.equal(await get(at), 200, `${mode}: and keeps the address`);
  }
  at.dns.mode = 'answers';
  at.dns.records.delete(NAME);
  await sleep(600);
  test.equal(await get(at), 200, 'a name that is gone: the last good address stays');
  at.dns.records.set(NAME, [SECOND]);
  const followed = async () => (await get(at)) === 200 && at.second.completed > 0;
  test.ok(await until(followed, 10_000), 'it is followed again once it answers');
});

t.test('D08 (d): a name with an unreachable IPv6 address first', async (test) => {
  const at = await origins(test);
  // A documentation address: unreachable here.
  at.dns.records.set(NAME, ['2001:db8::1', FIRST]);
  await sleep(800);
  const statuses = await Promise.all(Array.from({ length: 10 }, () => get(at)));
  test.ok(statuses.every((status) => status === 200), 'falls back', { statuses });
});

t.test('a reload breaks no request that is still being judged', async (test) => {
  const at = await origins(test);
  at.gate.writeConfig({
    ...fullConfig(at.config, undefined),
    sites: [{ name: 'shop', hosts: ['app.test'], upstreams: [at.second.url.replace(FIRST, SECOND)] }],
  });
  const uploads = await Promise.all(Array.from({ length: 5 }, () => RawConnection.open(at.gate.port)));
  const head = request({ method: 'POST', headers: [['Content-Length', '5']], target: '/upload' });
  for (const upload of uploads) await upload.send(Buffer.concat([head, Buffer.from('ab')]));
  const inFlight = async () => / 5$/.test((await metricsOf(at)).match(/^tidegate_requests_in_flight.*$/m)?.[0] ?? '');
  test.ok(await until(inFlight, 10_000), 'five are being judged');
  at.gate.reload();
  const said = () => at.gate.lines.some((line) => line.includes('"reloaded"'));
  const pings = await pingsDuring(at.gate.port, () => until(said, 20_000));
  test.ok(said(), 'reloaded');
  test.equal(pings.failed, 0, 'others are served meanwhile', pings);
  test.ok(pings.medianMs < 400 && pings.longestMs < 3000, 'in time', pings);
  for (const upload of uploads) await upload.send('cde');
  const answers = await Promise.all(uploads.map((upload) => upload.read()));
  test.strictSame([...new Set(answers.map(({ status }) => status))], [200], 'they go where they began');
  const uploaded = at.first.requests.filter(({ target, complete }) => target === '/upload' && complete);
  test.equal(uploaded.length, 5, 'to the origin of their config');
  for (const upload of uploads) upload.destroy();
});
