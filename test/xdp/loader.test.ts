/** The loader of the XDP filter: attach, detach, upgrade, what it refuses, what outlives it. */
import { spawnSync, type ChildProcess } from 'node:child_process';
import { existsSync, mkdirSync, mkdtempSync, renameSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import t from 'tap';
import { until } from '../support/case.js';
import { place, wireMissing } from './attached.js';
import { frame } from './frames.js';
import { BPF_FOLDER, LOADER } from './try-out.js';

const wired = { skip: wireMissing };
const exitOf = (child: ChildProcess) => {
  return new Promise<number | null>((resolve) => child.once('exit', (code) => resolve(code)));
};
const hex = (from: string) => frame({ from }).toString('hex');

for (const mode of ['driver', 'generic'] as const) {
  t.test(`${mode} mode: attached, seen, detached, nothing left`, wired, async (t) => {
    const here = place(t);
    const attached = here.run('attach', ['--mode', mode, '--syn-cap', '10', '--management', '192.0.2.7/24']);
    t.equal(attached.code, 0);
    t.match(attached.answer, { ok: true, op: 'attach', interface: 'near', mode, layout: 2 });
    const config = { synCap: 10, packetCap: 10_000, dryRun: false, management: ['192.0.2.0/24'] };
    t.match(attached.answer, { config });
    t.match(attached.stderr, new RegExp(`near in ${mode.toUpperCase()} mode`), 'and says so loudly');
    t.ok(here.filtered(), 'the kernel has it');
    t.match(here.run('status').answer, { ok: true, attached: true, interface: 'near', mode, config });
    const again = here.run('attach', ['--mode', mode]);
    t.match(again, { code: 4, answer: { ok: false, error: 'BUSY' } }, 'once only');
    t.equal(here.run('detach').code, 0);
    t.notOk(here.filtered(), 'the kernel has none');
    t.same(here.pinned(), [], 'no pin is left');
    t.match(here.run('detach'), { code: 3, answer: { error: 'NOT_ATTACHED' } });
    t.match(here.run('status'), { code: 3, answer: { error: 'NOT_ATTACHED' } });
  });
}

t.test('driver mode is never replaced by generic mode in silence', wired, async (t) => {
  const here = place(t);
  const refused = here.run('attach', ['--iface', 'lo', '--mode', 'driver']);
  t.match(refused, { code: 5, answer: { ok: false, error: 'NO_DRIVER_MODE' } });
  t.match(refused.stderr, /lo cannot run XDP in driver mode.*nothing was attached.*--mode generic/);
  t.same(here.pinned(), [], 'and leaves no pin');
  t.equal(
    here.run('attach', ['--iface', 'lo', '--mode', 'generic']).code,
    0,
    'asked for, generic mode is had',
  );
  t.equal(here.run('detach', ['--iface', 'lo']).code, 0);
});

t.test('wrong words are refused before anything is done', wired, async (t) => {
  const here = place(t);
  const WRONG: readonly (readonly string[])[] = [
    [],
    ['--mode', 'auto'],
    ['--mode', 'driver', '--packet-cap', '-1'],
    ['--mode', 'driver', '--packet-cap', '16000001'],
    ['--mode', 'driver', '--syn-cap', 'ten'],
    ['--mode', 'driver', '--dry-run', 'maybe'],
    ['--mode', 'driver', '--management', '0.0.0.0/0'],
    ['--mode', 'driver', '--management', 'office'],
    ['--mode', 'driver', '--nonsense'],
    ['--mode', 'driver', 'more'],
    ['--mode', 'driver', '--iface', 'none'],
    ['--mode', 'driver', '--iface', '../near'],
  ];
  for (const words of WRONG) {
    t.match(here.run('attach', words), { code: 2, answer: { ok: false, error: 'INPUT' } }, words.join(' '));
  }
  const said: readonly (readonly [words: readonly string[], message: RegExp])[] = [
    [['--syn-cap', '16000001'], /--syn-cap 16000001 does not fit: .* from 0 \(no cap\) to 16000000/],
    [['--management', '::/0'], /--management ::\/0 does not fit: .* \/1 or narrower/],
    [['--packet-window-ms', '0'], /milliseconds from 1 to 60000/],
    [['--iface', 'q"x'], /no interface q"x/],
    [['--iface', 'q\u00e9'], /no usable interface name/],
    [['--iface', 'q\x01'], /no usable interface name/],
  ];
  for (const [words, message] of said) {
    t.match(here.run('attach', ['--mode', 'driver', ...words]), { code: 2, answer: { message } });
  }
  t.match(here.run('nonsense'), { code: 2, answer: { error: 'INPUT' } });
  t.same(here.pinned(), []);
  t.notOk(here.filtered());
});

t.test('pins outside a BPF file system are refused', wired, async (t) => {
  const here = place(t);
  const folder = mkdtempSync(join(tmpdir(), 'tg-pins-'));
  t.teardown(() => rmSync(folder, { recursive: true }));
  const refused = here.run('attach', ['--mode', 'driver', '--pin', join(folder, 'tidegate')]);
  t.match(refused, { code: 1, answer: { error: 'KERNEL', remedy: /mount -t bpf/ } });
});

t.test('settings change at run time, lists and counters stay', wired, async (t) => {
  const here = place(t);
  here.run('attach', ['--mode', 'driver', '--management', '192.0.2.0/24', '--management', '2001:db8::/64']);
  here.feed('sync', [{ op: 'begin' }, { op: 'ban', net: '203.0.113.9' }, { op: 'commit' }]);
  here.feed('test-run', [{ op: 'packet', hex: hex('203.0.113.9'), repeat: 3 }]);
  const wanted = ['--syn-cap', '5', '--dry-run', 'on', '--management', '198.51.100.0/24'];
  const changed = here.run('config', wanted);
  t.match(changed.answer, { ok: true, config: { synCap: 5, dryRun: true, packetCap: 10_000 } });
  t.same((changed.answer.config as { management: string[] }).management, ['198.51.100.0/24']);
  here.feed('test-run', [{ op: 'packet', hex: hex('203.0.113.9'), repeat: 4 }]);
  t.equal(here.counter('dropped.banned'), 3);
  t.equal(here.counter('wouldDrop.banned'), 4);
  const cleared = here.run('config', ['--management', 'none']).answer.config as { management: string[] };
  t.same(cleared.management, []);
});

t.test('the filter outlives its loader, killed in the middle of a list', wired, async (t) => {
  const here = place(t);
  here.run('attach', ['--mode', 'driver', '--management', '192.0.2.0/24']);
  here.feed('sync', [{ op: 'begin', generation: 1 }, { op: 'ban', net: '203.0.113.0/24' }, { op: 'commit' }]);
  const { child, answers } = here.start('sync');
  child.stdin!.write('{"op":"begin","generation":2}\n{"op":"ban","net":"198.51.100.0/24"}\n{"op":"no"}\n');
  t.ok(await until(() => answers.length === 1), 'it has read them');
  const left = new Promise((resolve) => child.once('exit', resolve));
  child.kill('SIGKILL');
  await left;
  const sources = ['203.0.113.9', '198.51.100.9', '192.0.2.9'];
  const tried = here.feed(
    'test-run',
    sources.map((from) => ({ op: 'packet', hex: hex(from) })),
  );
  t.same(
    tried.map(({ verdict }) => verdict),
    ['drop', 'pass', 'pass'],
    'the list in force is the one before',
  );
  t.match(here.run('status').answer, { attached: true, lists: { generation: 1 } });
});

t.test('an upgrade keeps lists, counters and windows', wired, async (t) => {
  const here = place(t);
  here.run('attach', ['--mode', 'driver', '--syn-cap', '10', '--syn-window-ms', '60000']);
  here.feed('sync', [{ op: 'begin' }, { op: 'ban', net: '203.0.113.9' }, { op: 'commit' }]);
  const packets = (from: string, repeat: number) => {
    return here.feed('test-run', [{ op: 'packet', hex: hex(from), repeat }])[0]!;
  };
  packets('10.0.0.1', 6);
  const before = here.run('status').answer;
  t.match(here.run('upgrade'), { code: 0, answer: { ok: true, op: 'upgrade' } });
  const after = here.run('status').answer;
  t.not(after.programId, before.programId, 'the program is another');
  t.equal(after.linkId, before.linkId, 'the link is the same');
  t.equal(packets('203.0.113.9', 1).verdict, 'drop');
  const rest = packets('10.0.0.1', 6).counters as { passed: { judged: { packets: number } } };
  t.equal(rest.passed.judged.packets, 4, 'the window goes on where it was');
  t.equal(here.run('detach').code, 0);
  t.same(here.pinned(), []);
});

t.test('another map layout is refused, and can be detached', wired, async (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'tg-layout-'));
  t.teardown(() => rmSync(folder, { recursive: true }));
  const make = ['--no-print-directory', '-C', BPF_FOLDER, 'LAYOUT=3', `OUT=${folder}`];
  const built = spawnSync('make', make, { encoding: 'utf8', timeout: 60_000 });
  if (built.status !== 0) {
    t.pass('a second loader', { skip: 'no compiler for it' });
    return;
  }
  const next = join(folder, 'tidegate-xdp');
  const here = place(t);
  here.run('attach', ['--mode', 'driver']);
  for (const command of ['upgrade', 'status', 'sync']) {
    const refused = here.run(command, [], next);
    const message = /layout 2, this binary has 3/;
    t.match(refused, { code: 7, answer: { error: 'LAYOUT', message } }, command);
  }
  t.match(here.run('attach', ['--mode', 'driver'], next), { code: 7 }, 'attach');
  t.ok(here.filtered(), 'the old filter stays');
  t.equal(here.run('detach', [], next).code, 0, 'detach');
  t.same(here.pinned(), []);
  t.match(here.run('attach', ['--mode', 'driver'], next), { code: 0, answer: { layout: 3 } });
});

t.test('a sync that stays open notices that the filter has gone', wired, async (t) => {
  const here = place(t);
  here.run('attach', ['--mode', 'generic']);
  const { child, answers } = here.start('sync');
  child.stdin!.write('{"op":"begin","generation":1}\n{"op":"ban","net":"203.0.113.9"}\n{"op":"commit"}\n');
  t.ok(await until(() => answers.length === 1));
  t.match(answers[0], { ok: true, bans: 1 });
  here.run('detach');
  child.stdin!.write('{"op":"begin","generation":2}\n');
  t.ok(await until(() => answers.length === 2));
  t.match(answers[1], { ok: false, error: /detached/ });
});

t.test('an interface that has gone leaves pins that detach removes', wired, async (t) => {
  const here = place(t);
  here.run('attach', ['--mode', 'driver']);
  spawnSync('ip', ['-n', here.near, 'link', 'del', 'near']);
  t.match(here.run('status').answer, { ok: true, attached: false });
  t.equal(here.run('detach').code, 0);
  t.same(here.pinned(), []);
});

t.test('an interface that was renamed is told apart from a new one of its name', wired, async (t) => {
  const here = place(t);
  const ip = (...words: string[]) => spawnSync('ip', ['-n', here.near, ...words], { timeout: 20_000 });
  here.run('attach', ['--mode', 'driver']);
  t.match(here.run('status').answer, { attached: true, place: 'here', presentName: null });
  ip('link', 'set', 'near', 'name', 'old');
  t.match(here.run('status').answer, { attached: false, place: 'renamed', presentName: 'old' });
  t.match(here.run('attach', ['--mode', 'driver']), { code: 2 }, 'there is no such interface');
  t.match(here.run('status').answer, { place: 'renamed' }, 'and the filter stays');
  ip('link', 'add', 'near', 'type', 'veth', 'peer', 'name', 'beside');
  t.notOk(here.filtered(), 'the new one has no filter');
  t.match(here.run('status').answer, { attached: false, place: 'renamed' });
  const again = here.run('attach', ['--mode', 'driver']);
  t.match(again, { code: 0, stderr: /stale filter of near is cleared away; .* now called old/ });
  t.ok(here.filtered(), 'the new one has it');
  t.notMatch(ip('link', 'show', 'old').stdout.toString(), /xdp/, 'the old one has none');
  t.match(here.run('status').answer, { attached: true, place: 'here' });
  t.equal(here.run('detach').code, 0);
  t.same(here.pinned(), []);
});

t.test('from another network namespace the place cannot be told', wired, async (t) => {
  const here = place(t);
  here.run('attach', ['--mode', 'driver']);
  const words = ['netns', 'exec', here.far, LOADER, 'status', '--iface', 'near', '--pin', here.pins];
  const { stdout } = spawnSync('ip', words, { encoding: 'utf8', timeout: 20_000 });
  t.match(JSON.parse(stdout), { attached: true, place: 'elsewhere', presentName: null });
});

t.test('a missing or old pin of the program hinders nothing, and the next upgrade heals it', wired, async (t) => {
  const here = place(t);
  const pin = (name: string) => join(here.pins, 'v2', 'near', name);
  here.run('attach', ['--mode', 'driver']);
  const ban = [{ op: 'begin' }, { op: 'ban', net: '203.0.113.9' }, { op: 'commit' }];
  // As after a kill between the parts of an upgrade.
  renameSync(pin('program'), pin('program_next'));
  t.match(here.run('status'), { code: 0, answer: { attached: true } });
  t.match(here.feed('sync', ban), [{ ok: true, bans: 1 }]);
  t.match(here.feed('test-run', [{ op: 'packet', hex: hex('203.0.113.9') }]), [{ verdict: 'drop' }]);
  t.match(here.run('attach', ['--mode', 'driver']), { code: 4 }, 'it counts as a filter that works');
  t.match(here.run('upgrade'), { code: 0 });
  t.ok(existsSync(pin('program')));
  t.notOk(existsSync(pin('program_next')));
  t.match(here.feed('test-run', [{ op: 'packet', hex: hex('203.0.113.9') }]), [{ verdict: 'drop' }]);
  t.equal(here.run('detach').code, 0);
  t.same(here.pinned(), []);
});

t.test('of loaders that attach and detach at once none leaves half a filter', wired, async (t) => {
  const here = place(t);
  const codes = await Promise.all(
    [0, 1, 2, 3].map(() => exitOf(here.start('attach', ['--mode', 'driver']).child)),
  );
  t.same(codes.sort(), [0, 4, 4, 4], 'one attaches, the others find it');
  for (let round = 0; round < 3; round++) {
    const both = ['detach', 'attach'].map((command) => {
      return exitOf(here.start(command, command === 'attach' ? ['--mode', 'driver'] : []).child);
    });
    const [detached, attached] = await Promise.all(both);
    t.equal(detached, 0, 'there was one to detach');
    // Either it came too early, and then nothing is left, or it is attached and whole.
    const left = here.run('status').code;
    t.same([attached, left], attached === 0 ? [0, 0] : [4, 3]);
    if (left !== 0) t.equal(here.run('attach', ['--mode', 'driver']).code, 0);
  }
});

t.test('a dot, a quote or a backslash in the name of an interface is no trouble', wired, async (t) => {
  const here = place(t);
  for (const name of ['near.100', 'q"\\x']) {
    const add = ['-n', here.near, 'link', 'add', name, 'type', 'veth', 'peer', 'name', `of${name.length}`];
    spawnSync('ip', add, { timeout: 20_000 });
    for (const [command, mode] of [
      ['attach', ['--mode', 'generic']],
      ['status', []],
      ['upgrade', []],
      ['detach', []],
    ] as const) {
      const ran = here.run(command, ['--iface', name, ...mode]);
      t.match(ran, { code: 0, answer: { interface: name } }, `${name} ${command}`);
    }
  }
});

t.test('an answer that cannot be written is no success', wired, async (t) => {
  const here = place(t);
  here.run('attach', ['--mode', 'driver', '--management', '192.0.2.0/24']);
  for (const command of ['status', 'list', 'config', 'sync', 'detach']) {
    const line = `{"op":"begin"}\n{"op":"ban","net":"10.0.0.1"}\n{"op":"commit"}\n`;
    const words = `"${LOADER}" ${command} --iface near --pin "${here.pins}" >/dev/full`;
    const ran = spawnSync('ip', ['netns', 'exec', here.near, 'sh', '-c', words], {
      input: line,
      timeout: 20_000,
    });
    t.equal(ran.status, 1, command);
    t.match(ran.stderr.toString(), /could not be written/, command);
  }
});

t.test('a step of the clock since the last commit shows', wired, async (t) => {
  const here = place(t);
  const stepOf = (answer: unknown) => (answer as { lists: { clockStepMs: number } }).lists.clockStepMs;
  here.run('attach', ['--mode', 'driver']);
  t.equal(stepOf(here.run('status').answer), 0, 'none before the first commit');
  here.feed('sync', [{ op: 'begin' }, { op: 'commit' }]);
  t.ok(Math.abs(stepOf(here.run('status').answer)) < 1000);
  // A namespace in which the other clock is an hour ahead: as if this one had been set back.
  const inside = ['ip', 'netns', 'exec', here.near, LOADER, 'status', '--iface', 'near', '--pin', here.pins];
  const { status, stdout } = spawnSync('unshare', ['-T', '--monotonic', '3600', ...inside], {
    encoding: 'utf8',
    timeout: 20_000,
  });
  const skip = status === 0 ? false : 'no time namespaces here';
  t.ok(skip !== false || Math.abs(stepOf(JSON.parse(stdout)) + 3_600_000) < 1000, 'an hour back', { skip });
});

t.test('pins that a loader left half made are cleared away by attach or detach', wired, async (t) => {
  const here = place(t);
  mkdirSync(join(here.pins, 'v2', 'near'), { recursive: true });
  t.match(here.run('status'), { code: 3 });
  t.equal(here.run('detach').code, 0);
  mkdirSync(join(here.pins, 'v2', 'near'), { recursive: true });
  t.equal(here.run('attach', ['--mode', 'driver']).code, 0);
  // As after a kill in the middle of a detach, or of an attach.
  for (const missing of ['ban4', 'link']) {
    rmSync(join(here.pins, 'v2', 'near', missing));
    t.match(here.run('status'), { code: 3, answer: { error: 'NOT_ATTACHED' } }, missing);
    t.equal(here.run('attach', ['--mode', 'driver']).code, 0, missing);
    t.match(here.run('status').answer, { attached: true }, missing);
  }
});

t.test('without the rights the answer says which', wired, async (t) => {
  const user = ['--reuid=65534', '--regid=65534', '--clear-groups', '--no-new-privs'];
  const words = [...user, LOADER, 'test-run'];
  const { status, stdout } = spawnSync('setpriv', words, { encoding: 'utf8', input: '', timeout: 20_000 });
  // 126 and 127: no setpriv, or nobody else may enter this folder.
  const skip = status === 126 || status === 127 || status === null ? 'no other user can start it' : false;
  t.equal(status, 6, 'exit code', { skip });
  if (skip !== false) return;
  const remedy = /CAP_BPF, CAP_NET_ADMIN and CAP_PERFMON/;
  t.match(JSON.parse(stdout), { ok: false, error: 'RIGHTS', remedy });
});
