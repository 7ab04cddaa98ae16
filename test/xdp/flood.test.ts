/** The XDP filter under a flood: nothing slips through while programs and lists are exchanged beneath it. */
import { execFileSync, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import t from 'tap';
import { Place, wireMissing } from './attached.js';
import { frame, NEXT } from './frames.js';
import { BPF_FOLDER } from './try-out.js';

const FLOOD = join(BPF_FOLDER, 'build/xdp-flood');
const SOURCES = 200;
const SECONDS = '1';

function missing(): string | false {
  if (wireMissing !== false) return wireMissing;
  if (spawnSync('ethtool', ['--version']).status !== 0) return 'ethtool is not installed';
  const built = spawnSync('make', ['--no-print-directory', '-C', BPF_FOLDER, 'flood'], { timeout: 60_000 });
  return built.status === 0 ? false : 'the sender of floods cannot be built';
}

const skip = { skip: missing() };

type Sent = Readonly<{ packets: number }>;

/** Sends from `SOURCES` addresses while `meanwhile` runs again and again; how many packets and rounds. */
async function under(here: Place, meanwhile: () => void): Promise<{ sent: number; rounds: number }> {
  const payload = Buffer.alloc(30);
  const hex = frame({ from: '198.18.0.0', protocol: NEXT.udp, payload }).toString('hex');
  const words = ['netns', 'exec', here.far, FLOOD, 'send', 'far', SECONDS, String(SOURCES), hex];
  const sender = spawn('ip', words, { stdio: ['ignore', 'pipe', 'inherit'] });
  let output = '';
  sender.stdout.on('data', (data: Buffer) => (output += data.toString()));
  const closed = once(sender, 'close');
  let rounds = 0;
  while (sender.exitCode === null && rounds < 1000) {
    meanwhile();
    rounds++;
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
  await closed;
  return { sent: (JSON.parse(output) as Sent).packets, rounds };
}

function attached(t: { teardown(end: () => void): void }, mode: string): Place {
  const here = new Place();
  t.teardown(() => here.close());
  for (const [namespace, link] of [
    [here.near, 'near'],
    [here.far, 'far'],
  ] as const) {
    execFileSync('ip', ['netns', 'exec', namespace, 'ethtool', '-K', link, 'gro', 'on'], { stdio: 'ignore' });
  }
  here.run('attach', ['--mode', mode, '--packet-cap', '0']);
  return here;
}

const bans = Array.from({ length: SOURCES }, (_, index) => ({ op: 'ban', net: `198.18.0.${index}` }));
const commit = [{ op: 'begin' }, ...bans, { op: 'commit' }];

for (const mode of ['driver', 'generic']) {
  t.test(`${mode} mode: upgrades and new lists under a flood leak nothing`, skip, async (t) => {
    const here = attached(t, mode);
    here.feed('sync', commit);
    const { sent, rounds } = await under(here, () => {
      here.run('upgrade');
      here.feed('sync', commit);
    });
    t.ok(rounds > 0, `${rounds} upgrades and lists`);
    t.equal(here.counter('passed.judged'), 0, 'nothing passed');
    const dropped = here.counter('dropped.banned');
    t.ok(dropped > 0 && dropped <= sent, `${dropped} of ${sent} packets arrived and were dropped`);
  });
}
