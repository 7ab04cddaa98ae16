/** `tidegate xdp`: the kernel companion; `xdp status` looks at the filter, `xdp off` takes it away. */
import type { Command } from 'commander';
import { loadConfig } from '../config/load.js';
import { describeFault } from '../core/errors.js';
import { createXdpAgent, loaderOf, xdpOf, type XdpAgent } from '../roles/xdp-agent.js';
import { createEventLog, type EventLog } from '../telemetry/log.js';
import type { CliCommand } from './command.js';
import { printXdpStatus } from './xdp-print.js';

type RunFlags = Readonly<{ config?: string; detachOnExit?: true }>;
type Flags = Readonly<{ config: string; json?: true }>;

export const xdpCommand: CliCommand = {
  name: 'xdp',
  register(program: Command) {
    const xdp = program
      .command('xdp')
      // What stands after `status` or `off` is theirs.
      .enablePositionalOptions()
      .description('keep the bans in the kernel, which drops them and floods before they cost anything')
      .option('-c, --config <file>', "the gate's config file, with a section xdp")
      .option('--detach-on-exit', 'take the filter off at the end; else it stays in place')
      .action(async ({ config, detachOnExit }: RunFlags) => {
        if (config === undefined) xdp.error("error: required option '-c, --config <file>' not specified");
        await serveXdp(config ?? '', detachOnExit === true);
      });
    const sub = (name: string, text: string): Command =>
      xdp.command(name).description(text).requiredOption('-c, --config <file>', "the gate's config file");
    sub('status', 'what the filter does: mode, lists, counters')
      .option('--json', 'print JSON')
      .action(async ({ config: file, json }: Flags) => {
        const config = await loadConfig(file);
        const status = await loaderOf(config).status();
        const about = { interface: xdpOf(config).interface, status };
        process.stdout.write(json ? `${JSON.stringify(about, null, 2)}\n` : printXdpStatus(about));
        if (status === undefined) process.exitCode = 1;
      });
    sub('off', 'take the filter and its lists off the interface, at once').action(async (flags: Flags) => {
      const config = await loadConfig(flags.config);
      const was = await loaderOf(config).detach();
      const { interface: iface } = xdpOf(config);
      const said = was
        ? `the filter is off ${iface}; the gate refuses the banned by itself`
        : `no filter was on ${iface}`;
      process.stdout.write(`${said}\n`);
    });
  },
};

/** Until SIGTERM or SIGINT; SIGHUP asks for a round now. */
async function serveXdp(file: string, detach: boolean): Promise<never> {
  for (const stream of [process.stdout, process.stderr]) stream.on('error', () => undefined);
  // At once: until there is somebody to take it, this signal would end the process.
  const running: { agent?: XdpAgent } = {};
  process.on('SIGHUP', () => void running.agent?.round());
  const config = await loadConfig(file);
  const log = createEventLog({ ...config.log, file: undefined }, { file: undefined, nowMs: Date.now });
  const agent = (running.agent = createXdpAgent(config, log.note));
  const started = await agent.start();
  log.note(
    'warn',
    `XDP filter on ${started.interface} in ${started.mode.toUpperCase()} mode${dry(started.dryRun)}`,
    {
      ...started,
      pid: process.pid,
    },
  );
  await firstSignal();
  return end(agent, log, detach);
}

const dry = (dryRun: boolean): string => (dryRun ? ', DRY RUN: nothing is dropped' : '');

async function end(agent: XdpAgent, log: EventLog, detach: boolean): Promise<never> {
  let code = 0;
  try {
    await agent.stop({ detach });
  } catch (error) {
    process.stderr.write(`${describeFault(error)}\n`);
    code = 1;
  }
  await log.close();
  process.exit(code);
}

/** Resolves at the first SIGTERM or SIGINT; a second one ends the process at once. */
function firstSignal(): Promise<void> {
  return new Promise((resolve) => {
    let asked = false;
    const onSignal = (): void => {
      if (asked) process.exit(1);
      asked = true;
      resolve();
    };
    process.on('SIGTERM', onSignal);
    process.on('SIGINT', onSignal);
  });
}
