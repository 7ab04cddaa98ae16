/** The systemd unit of the companion: three capabilities, paths that exist in the layout. */
import { execFileSync } from 'node:child_process';
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import t from 'tap';
import { ROOT } from '../support/gate.js';

const FILE = join(ROOT, 'deploy/systemd/tidegate-xdp.service');
const INSTALLED = '/opt/tidegate';
const text = readFileSync(FILE, 'utf8');
const valueOf = (key: string): string => new RegExp(`^${key}=(.*)$`, 'm').exec(text)?.[1] ?? '';

t.test('it has the capabilities that it needs and no other', (t) => {
  t.same(valueOf('CapabilityBoundingSet').split(' ').sort(), ['CAP_BPF', 'CAP_NET_ADMIN', 'CAP_PERFMON']);
  t.equal(valueOf('AmbientCapabilities'), '');
  t.equal(valueOf('NoNewPrivileges'), 'yes');
  t.equal(text.match(/CAP_\w+/g)?.length, 3);
  t.end();
});

t.test('the paths that it names are those of the layout', (t) => {
  const { bin } = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8')) as {
    bin: { tidegate: string };
  };
  const [node, script, command] = valueOf('ExecStart').split(' ');
  t.equal(node, '/usr/bin/node');
  t.equal(script, join(INSTALLED, bin.tidegate));
  t.equal(command, 'xdp');
  const named = [...text.matchAll(/\/opt\/tidegate\/(\S+)/g)].map(([, path]) => path ?? '');
  for (const path of named.filter((one) => one !== bin.tidegate)) t.ok(existsSync(join(ROOT, path)), path);
  t.equal(valueOf('ReadWritePaths'), '/sys/fs/bpf', 'it writes nowhere else');
  t.end();
});

t.test('systemd has nothing to say against it', { skip: whyNot() }, (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'tidegate-unit-'));
  t.teardown(() => rmSync(folder, { recursive: true, force: true }));
  const here = text.replaceAll('/usr/bin/node', process.execPath).replaceAll(INSTALLED, ROOT);
  const file = join(folder, 'tidegate-xdp.service');
  writeFileSync(file, here);
  const said = execFileSync('systemd-analyze', ['verify', file], { encoding: 'utf8', timeout: 60_000 });
  t.equal(said.trim(), '');
  t.end();
});

function whyNot(): string | false {
  try {
    execFileSync('systemd-analyze', ['--version'], { stdio: 'ignore', timeout: 10_000 });
    return false;
  } catch {
    return 'systemd-analyze is not here';
  }
}
