/** `tidegate check` as a process: whatever would keep the gate from starting is said by it too. */
import { execFile } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createServer, type AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import t, { type Test } from 'tap';
import { stringify } from 'yaml';
import { fullConfig, ROOT, type ConfigTree } from '../support/gate.js';

type Outcome = { code: number; out: string; err: string };

function check(test: Test, config: ConfigTree, token = 'x'): Promise<Outcome> {
  const folder = mkdtempSync(join(tmpdir(), 'tidegate-check-'));
  test.teardown(() => rmSync(folder, { recursive: true, force: true }));
  writeFileSync(join(folder, 'bad.pem'), '-----BEGIN CERTIFICATE-----\nno\n-----END CERTIFICATE-----\n');
  const file = join(folder, 'gate.yaml');
  writeFileSync(file, stringify(fullConfig(config, undefined)));
  const command = [resolve(ROOT, 'dist/src/main.js'), 'check', '--config', file];
  const env = { PATH: process.env['PATH'], TIDEGATE_ADMIN_TOKEN: token };
  return new Promise((done) => {
    execFile(process.execPath, command, { env, timeout: 60_000 }, (error, out, err) => {
      done({ code: error === null ? 0 : Number(error.code ?? 99), out, err });
    });
  });
}

t.test('a config that can be started is ok, and what it does is named', async (test) => {
  const { code, out } = await check(test, {});
  test.equal(code, 0);
  test.match(out, /^ok\n[^]*site shop: app\.test[^]*admin on http:\/\/127\.0\.0\.1:0/m);
});

const misfits: [name: string, config: ConfigTree, says: RegExp][] = [
  [
    'an admin listener that others reach, without a token',
    { admin: { listen: '0.0.0.0:0' } },
    /ADMIN_EXPOSED[^]*what to do/,
  ],
  [
    'an address of another machine',
    { listen: '192.0.2.1:8080' },
    /LISTEN_FAILED[^]*192\.0\.2\.1:8080[^]*what to do/,
  ],
  [
    'one address twice',
    { listen: ['127.0.0.1:8080', 'localhost:8080'] },
    /CONFIG_INVALID[^]*listened on twice/,
  ],
  [
    'a certificate that is none',
    { listen: [{ address: '127.0.0.1:0', tls: { cert: 'bad.pem', key: 'bad.pem' } }] },
    /CONFIG_INVALID[^]*bad\.pem[^]*a PEM certificate chain fits/,
  ],
];
for (const [name, config, says] of misfits) {
  t.test(`check refuses ${name}`, async (test) => {
    const { code, out, err } = await check(test, config, '');
    test.equal(code, 1, out);
    test.match(err, says);
    test.notMatch(out, /^ok$/m);
  });
}

t.test('a port that is held is only a warning: the gate itself may run there', async (test) => {
  const holder = createServer();
  await new Promise<void>((done) => holder.listen(0, '127.0.0.1', done));
  test.teardown(() => holder.close());
  const { port } = holder.address() as AddressInfo;
  const { code, out } = await check(test, { listen: `127.0.0.1:${port}` });
  test.equal(code, 0);
  test.match(out, /^warning: 127\.0\.0\.1:\d+ is held by another process[^]*^ok$/m);
});
