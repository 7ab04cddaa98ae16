/**
 * The whole way: attackers at a real gate, bans by the correlator and by an operator, the companion, the
 * kernel, and back again. With Redis where it is installed, else with the gate's own file.
 */
import { execFileSync } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t, { type Test } from 'tap';
import { Running, tidegate, until } from './agent-process.js';
import {
  GATE4,
  INTERFACE,
  loaderOn,
  OFFICE,
  openWire,
  packets,
  STRANGERS,
  whyNot,
  type Wire,
} from './wire.js';

const [BAD, GOOD, ONE, TWO, THREE] = STRANGERS;
const PORT = 8080;
const REDIS = 6379;

t.test(
  'an attacker at the gate is banned into the kernel, and comes back when unbanned',
  { skip: whyNot() },
  async (t) => {
    const wire = await openWire(t);
    const config = await openGate(t, wire);
    const agent = Running.tidegate(t, wire, ['xdp', '--config', config]);
    await agent.says('XDP filter on');
    const loader = loaderOn(wire, 'driver');
    const dropped = (): Promise<number> => packets(loader, 'dropped', 'banned');
    const ask = (from: string, path = '/', form?: string, ms = 8000): Promise<number> =>
      wire.client.ask({ what: 'ask', from, to: GATE4, port: PORT, path, form, ms });
    /** No answer, and at least one packet more that was dropped for its ban. */
    const isDropped = async (from: string): Promise<boolean> => {
      const before = await dropped();
      return (await ask(from, '/', undefined, 400)) === 0 && (await dropped()) > before;
    };

    t.equal(await ask(BAD), 200);
    t.equal(await ask(BAD, "/?q='%20or%201=1%20--"), 403, 'refused by a rule');
    t.equal(await dropped(), 0, 'by the gate, not by the kernel');
    const ban = await tidegate(wire, 'ban', BAD, '--config', config, '--for', '10m', '--reason', 'attacks');
    t.equal(ban.code, 0, ban.stderr);
    t.ok(await until(() => isDropped(BAD)), 'its packets are dropped in the kernel');
    t.equal(await ask(GOOD), 200, 'its neighbour is served');
    const unban = await tidegate(wire, 'unban', BAD, '--config', config, '--reason', 'settled');
    t.equal(unban.code, 0, unban.stderr);
    t.ok(await until(async () => (await ask(BAD)) === 200), 'unbanned, it is back');

    for (let round = 0; round < 8; round++) {
      for (const from of [ONE, TWO, THREE]) {
        const form = `username=u${round}-${from}&password=${round % 2 === 0 ? 'guess' : "'%20or%201=1%20--"}`;
        await ask(from, '/login', form);
      }
    }
    for (const from of [ONE, TWO, THREE])
      t.ok(await until(() => isDropped(from)), `${from}, by the correlator`);
    t.equal(await ask(OFFICE), 200);
  },
);

/** Redis, an origin and a gate in front of it; answers the config file. */
async function openGate(t: Test, wire: Wire): Promise<string> {
  const config = join(wire.folder, 'gate.yaml');
  await wire.gate.ask({ what: 'listenHttp', port: 8081 });
  const book = await bookOf(t, wire);
  const tree = {
    listen: `${GATE4}:${PORT}`,
    workers: 1,
    sites: [{ name: 'shop', hosts: ['*'], upstreams: ['http://127.0.0.1:8081'] }],
    limits: { policies: ['ingress', 'api', 'login'].map((name) => ({ name, enabled: false })) },
    reputation: { points: { refusal: 0 } },
    correlator: {
      evaluateEvery: '200ms',
      blast: { share: 1 },
      detectors: { failedLogins: { addresses: 3, failures: 3, banAt: 0.1 } },
    },
    admin: { listen: '127.0.0.1:9091' },
    xdp: { interface: INTERFACE, mode: 'driver', pin: wire.pin, management: [OFFICE], every: '300ms' },
    ...book,
  };
  writeFileSync(config, JSON.stringify(tree));
  const gate = Running.tidegate(t, wire, ['serve', '--config', config]);
  await gate.line(({ msg }) => msg === 'ready', 'ready');
  return config;
}

async function bookOf(t: Test, wire: Wire): Promise<Readonly<Record<string, unknown>>> {
  try {
    execFileSync('redis-server', ['--version'], { stdio: 'ignore' });
  } catch {
    t.comment('no Redis here: with the file of the gate');
    return { bans: { stateFile: 'bans.jsonl' } };
  }
  const settings = ['--port', String(REDIS), '--bind', '127.0.0.1', '--save', '', '--appendonly', 'no'];
  const redis = Running.program(t, wire, ['redis-server', ...settings, '--dir', wire.folder]);
  await redis.says('Ready to accept connections');
  return { redis: { url: `redis://127.0.0.1:${REDIS}`, deadline: '1s' } };
}
