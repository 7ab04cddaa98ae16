import { execFileSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import t from 'tap';
import { readCredentials, tlsProblem } from './credentials.js';

const folder = mkdtempSync(join(tmpdir(), 'tidegate-tls-'));
t.teardown(() => rmSync(folder, { recursive: true, force: true }));

function make(name: string): boolean {
  const files = ['-keyout', join(folder, `${name}.key`), '-out', join(folder, `${name}.cert`)];
  const kind = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes', '-subj', '/CN=app.test'];
  try {
    execFileSync('openssl', ['req', '-x509', '-days', '2', ...kind, ...files], { stdio: 'ignore' });
    return true;
  } catch {
    return false;
  }
}

const skip = make('one') && make('two') ? false : 'openssl is not installed';
const read = (name: string): string => readFileSync(join(folder, name), 'utf8');

t.test('a pair is used only when both parts are good and belong together', { skip }, (t) => {
  const [cert, key] = [read('one.cert'), read('one.key')];
  const rows = [
    { name: 'a pair', pair: { cert, key }, part: undefined },
    { name: 'a chain', pair: { cert: cert + read('two.cert'), key }, part: undefined },
    { name: 'another key', pair: { cert, key: read('two.key') }, part: 'key' },
    { name: 'an empty key', pair: { cert, key: '' }, part: 'key' },
    { name: 'half a key', pair: { cert, key: key.slice(0, 90) }, part: 'key' },
    { name: 'an empty certificate', pair: { cert: '', key }, part: 'cert' },
    { name: 'half a certificate', pair: { cert: cert.slice(0, 200), key }, part: 'cert' },
    { name: 'the two swapped', pair: { cert: key, key: cert }, part: 'cert' },
  ];
  for (const { name, pair, part } of rows) t.equal(tlsProblem(pair)?.part, part, name);
  t.end();
});

t.test('files are read beside the config, and named when they cannot be', { skip }, (t) => {
  const listen = [
    { address: ':80', proxyProtocol: false, tls: undefined },
    { address: ':443', proxyProtocol: false, tls: { cert: 'one.cert', key: 'one.key' } },
  ];
  t.same(readCredentials(listen, folder), [undefined, { cert: read('one.cert'), key: read('one.key') }]);
  writeFileSync(join(folder, 'bad.key'), 'x');
  for (const key of ['two.key', 'bad.key', 'none.key']) {
    const bad = [{ address: ':443', proxyProtocol: false, tls: { cert: 'one.cert', key } }];
    t.throws(() => readCredentials(bad, folder), { code: 'TLS_UNUSABLE', message: new RegExp(key) }, key);
  }
  t.end();
});
