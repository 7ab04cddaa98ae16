/** `tidegate correlate`: one of the correlators behind Kafka, until SIGTERM or SIGINT. */
import type { Command } from 'commander';
import { describeFault } from '../core/errors.js';
import { createCorrelatorProcess } from '../roles/correlator-process.js';
import type { CliCommand } from './command.js';
import { firstSignal } from './serve.js';

export const correlateCommand: CliCommand = {
  name: 'correlate',
  register(program: Command) {
    program
      .command('correlate')
      .description(
        'read decisions from Kafka, find patterns, ban through Redis; several share the work. A restart takes ' +
          'a new config over and loses nothing',
      )
      .requiredOption('-c, --config <file>', "the gates' config file, with `kafka` and `redis`")
      .action(async ({ config }: { config: string }) => correlate(config));
  },
};

async function correlate(file: string): Promise<never> {
  for (const stream of [process.stdout, process.stderr]) stream.on('error', () => undefined);
  const correlator = createCorrelatorProcess(file);
  const signal = firstSignal(() => process.exit(1));
  try {
    const started = await correlator.start();
    const line = {
      level: 'info',
      msg: 'ready',
      time: new Date().toISOString(),
      ...started,
      pid: process.pid,
    };
    process.stdout.write(`${JSON.stringify(line)}\n`);
    await signal;
    await correlator.stop();
    process.exit(0);
  } catch (error) {
    process.stderr.write(`${describeFault(error)}\n`);
    await correlator.stop().catch(() => undefined);
    process.exit(1);
  }
}
