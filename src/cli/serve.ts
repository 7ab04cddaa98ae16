/** `tidegate serve`: supervisor and workers, until SIGTERM or SIGINT. */
import type { Command } from 'commander';
import { describeFault } from '../core/errors.js';
import { createSupervisor, type Started, type Supervisor } from '../roles/supervisor.js';
import type { CliCommand } from './command.js';

export const serveCommand: CliCommand = {
  name: 'serve',
  register(program: Command) {
    program
      .command('serve')
      .description(
        'run the gate: SIGHUP reloads the config, SIGTERM ends it once requests in flight are done',
      )
      .requiredOption('-c, --config <file>', 'config file')
      .action(async ({ config }: { config: string }) => {
        await serve(createSupervisor(config));
      });
  },
};

/**
 * Starts and says so in one JSON line; ends the process when a signal has stopped the gate. Throws a Fault
 * where it cannot start.
 */
export async function serve(supervisor: Supervisor, onReady?: (started: Started) => void): Promise<never> {
  // A reader of ours that went away is no reason to stop serving.
  for (const stream of [process.stdout, process.stderr]) stream.on('error', () => undefined);
  const tell = (error: unknown): void => void process.stderr.write(`${describeFault(error)}\n`);
  let running = false;
  // From the start: before anybody listens to it, SIGHUP would end the process.
  process.on('SIGHUP', () => {
    if (running) supervisor.reload().catch(tell);
  });
  const started = await supervisor.start();
  running = true;
  const line = { level: 'info', msg: 'ready', time: new Date().toISOString(), ...started, pid: process.pid };
  process.stdout.write(`${JSON.stringify(line)}\n`);
  onReady?.(started);
  await firstSignal(() => {
    supervisor.kill();
    process.exit(1);
  });
  try {
    await supervisor.stop();
    process.exit(0);
  } catch (error) {
    tell(error);
    process.exit(1);
  }
}

/** Resolves at the first SIGTERM or SIGINT; every further one calls `again`. */
export function firstSignal(again: () => void): Promise<void> {
  return new Promise((resolve) => {
    let asked = false;
    const onSignal = (): void => {
      if (asked) again();
      asked = true;
      resolve();
    };
    process.on('SIGTERM', onSignal);
    process.on('SIGINT', onSignal);
  });
}
