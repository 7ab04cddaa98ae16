/** The TLS listener: B05 (f) server name against Host, certificates that are replaced, clients that abort. */
import { execFile } from 'node:child_process';
import { join } from 'node:path';
import t, { type Test } from 'tap';
import { bench, blocked, SQLI, until, type Bench } from '../support/case.js';
import { makeCertificate, noCertificates, type Certificate } from '../support/certificate.js';
import { EchoUpstream, ok } from '../support/echo-upstream.js';
import { ROOT, type ConfigTree } from '../support/gate.js';
import { exchange, RawConnection, request } from '../support/raw-client.js';

const LISTEN = [{ address: '127.0.0.1:0', tls: { cert: 'cert.pem', key: 'key.pem' } }];
const tls = { servername: 'app.test' };
const skip = noCertificates;

async function secure(test: Test, config: ConfigTree = {}): Promise<Bench & { pair: Certificate }> {
  const pair = makeCertificate();
  const files = { 'cert.pem': pair.cert, 'key.pem': pair.key, 'block.txt': '203.0.113.66\n' };
  return { ...(await bench(test, { listen: LISTEN, ...config }, { files })), pair };
}

t.test('a TLS listener serves, judges and says so to the origin', { skip }, async (test) => {
  const at = await secure(test);
  const answer = await exchange(at.gate.port, request({ target: '/tls', body: 'a=1' }), { tls });
  test.equal(answer.status, 200, 'served');
  test.equal(at.up.last?.header('x-forwarded-proto'), 'https', 'the origin learns the scheme');
  const connection = await RawConnection.openTls(at.gate.port, tls);
  test.equal(connection.fingerprint, at.pair.fingerprint, 'with the certificate of the config');
  for (const target of ['/one', '/two']) {
    await connection.send(request({ target }));
    test.equal((await connection.read()).status, 200, `kept alive: ${target}`);
  }
  connection.destroy();
  const target = `/?q=${encodeURIComponent(SQLI)}`;
  await blocked(test, 'an attack', at, { bytes: request({ target }), tls, statuses: [403] });
  const plain = await exchange(at.gate.port, request(), { timeoutMs: 3000 });
  test.not(plain.status, 200, 'plain HTTP on it is not served');
  test.equal((await exchange(at.gate.port, request(), { tls })).status, 200, 'and harms nobody');
});

t.test('B05 (f): TLS server name against Host', { skip }, async (test) => {
  const up = await EchoUpstream.start();
  test.teardown(() => up.close());
  const sites = [
    { name: 'app', hosts: ['app.test', '*.app.test'], upstreams: [up.url] },
    { name: 'admin', hosts: ['admin.test'], upstreams: [up.url] },
  ];
  const { gate } = await secure(test, { sites });
  const at = { gate, up };
  const statusOf = async (host: string, servername?: string): Promise<number> => {
    const sent = request({ host });
    return (await exchange(gate.port, sent, { tls: servername === undefined ? {} : { servername } })).status;
  };
  for (const [host, servername] of [
    ['app.test', 'admin.test'],
    ['admin.test', 'app.test'],
    ['admin.test', 'APP.test'],
    ['admin.test', 'www.app.test'],
  ] as const) {
    const name = `server name ${servername}, Host ${host}`;
    await blocked(test, name, at, {
      bytes: request({ host }),
      tls: { servername },
      statuses: [421],
      close: true,
    });
  }
  test.equal(await statusOf('app.test', 'app.test'), 200, 'the same name');
  test.equal(await statusOf('app.test', 'www.app.test'), 200, 'another name of the same site');
  test.equal(await statusOf('admin.test'), 200, 'no server name: the Host counts');
  test.equal(await statusOf('admin.test', 'cdn.example'), 200, 'the name of no site: the Host counts');
  test.equal(await statusOf('other.test', 'app.test'), 421, 'a Host of no site');
  const event = await gate.event(({ steps }) => steps[0]?.findings[0]?.id === 'HOST-MISDIRECTED');
  test.equal(event.status, 421, 'the log names the reason');
});

t.test('a reload takes new certificates, and refuses bad ones', { skip }, async (test) => {
  const at = await secure(test, { workers: 2 });
  const { gate } = at;
  const shown = async (): Promise<string> => {
    const connection = await RawConnection.openTls(gate.port, tls);
    const { fingerprint } = connection;
    connection.destroy();
    return fingerprint;
  };
  const said = (text: string) => until(() => gate.lines.some((line) => line.includes(text)), 10_000);
  const kept = await RawConnection.openTls(gate.port, tls);
  const next = makeCertificate();
  gate.write('cert.pem', next.cert);
  gate.reload();
  test.ok(await said('not the key of the certificate'), 'a certificate without its key is reported');
  test.equal(await shown(), at.pair.fingerprint, 'and changes nothing');
  for (const pid of gate.workers().slice(0, 1)) process.kill(pid, 'SIGKILL');
  await until(() => gate.workers().length === 2, 5000);
  const ready = async () => (await gate.admin('/readyz')).status === 200;
  test.ok(await until(ready, 15_000), 'a worker that is replaced meanwhile comes up');
  test.equal(await shown(), at.pair.fingerprint, 'with the old pair');
  gate.write('key.pem', next.key);
  gate.reload();
  test.ok(await said('"reloaded"'), 'the whole new pair is taken');
  const seen = new Set<string>();
  for (let n = 0; n < 8; n++) seen.add(await shown());
  test.strictSame([...seen], [next.fingerprint], 'by every worker');
  await kept.send(request());
  const answer = await kept.read();
  test.ok(answer.status === 200 || answer.closed, 'a connection that was open goes on or ends clean', {
    got: answer.status,
  });
  gate.write('cert.pem', 'not a certificate');
  gate.reload();
  test.ok(await said('does not begin with a PEM certificate'), 'rubbish is reported');
  test.equal(await shown(), next.fingerprint, 'and changes nothing');
});

t.test('`tidegate check` names what is wrong with a certificate', { skip }, async (test) => {
  const at = await secure(test);
  at.gate.write('key.pem', makeCertificate().key);
  const args = [join(ROOT, 'dist/src/main.js'), 'check', '--config', at.gate.configFile];
  const text = await new Promise<string>((done) => {
    execFile(process.execPath, args, { timeout: 30_000 }, (error, stdout, stderr) =>
      done(`exit ${error?.code ?? 0}\n${stdout}${stderr}`),
    );
  });
  test.match(text, /^exit 1\n/, 'refused');
  test.match(text, /gate\.yaml:\d+: .*tls\.key: .*not the key of the certificate/, 'by file, line and key');
});

t.test('D01 over TLS: clients that leave', { skip }, async (test) => {
  const at = await secure(test, {
    caps: { upstreamConnections: 4, addressShare: 1 },
    timeouts: { halfClosed: '1500ms' },
  });
  at.up.script = (_seen, socket) => {
    socket.write('HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n');
    // A client that closes in order is noticed by the first bytes that it does not take any more.
    const timer = setInterval(() => socket.write('5\r\nhello\r\n'), 50);
    socket.once('close', () => clearInterval(timer));
    return undefined;
  };
  for (const how of ['reset', 'destroy'] as const) {
    const open = () => RawConnection.openTls(at.gate.port, tls);
    const clients = await Promise.all(Array.from({ length: 12 }, open));
    for (const client of clients) await client.send(request({ target: '/endless' }));
    test.ok(await until(() => at.up.open === 4), `${how}: four are at the origin`, { open: at.up.open });
    for (const client of clients) client[how]();
    test.ok(await until(() => at.up.open === 0), `${how}: the origin's connections are gone`, {
      open: at.up.open,
    });
  }
  const sending = await RawConnection.openTls(at.gate.port, tls);
  const head = request({ method: 'PUT', headers: [['Content-Length', '50000000']] });
  await sending.send(Buffer.concat([head, Buffer.alloc(600_000, 7)]));
  sending.reset();
  test.ok(await until(() => at.up.open === 0), 'a reset in mid-upload as well', { open: at.up.open });
  at.up.script = () => new Promise((done) => setTimeout(done, 200, ok('late but whole')));
  const half = await RawConnection.openTls(at.gate.port, tls);
  await half.send(request());
  half.end();
  const answer = await half.read();
  test.equal(answer.text(), 'late but whole', 'a half-closed client still reads its answer');
  at.up.keep = false;
  at.up.script = () => undefined;
  const done = at.up.completed;
  const closed = await RawConnection.openTls(at.gate.port, tls);
  await closed.send(request());
  test.ok(await until(() => at.up.completed === done + 1), 'another waits for its answer');
  closed.end();
  test.ok(await until(() => at.up.open === 0), 'and does not hold its place', { open: at.up.open });
  at.up.script = undefined;
  test.equal((await exchange(at.gate.port, request(), { tls })).status, 200, 'the next client is served');
});
