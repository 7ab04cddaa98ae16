/** `tidegate serve`: supervisor and workers, until SIGTERM or SIGINT. */
import type { Command } from 'commander';
import { describeFault } from '../core/errors.js';
import { createSupervisor } from '../roles/supervisor.js';
import type { CliCommand } from './command.js';

export const serveCommand: CliCommand = {
  name: 'serve',
  register(program: Command) {
    program
      .command('serve')
      .description('run the gate: SIGHUP reloads the config, SIGTERM ends it once requests in flight are done')
      .requiredOption('-c, --config <file>', 'config file')
      .action(async ({ config }: { config: string }) => {
        await serve(config);
      });
  },
};

/** Starts and says so in one JSON line; resolves when the gate was stopped by a signal. */
export async function serve(file: string, onReady?: (listen: readonly string[]) => void): Promise<void> {
  const supervisor = createSupervisor(file);
  const started = await supervisor.start();
  const line = { level: 'info', msg: 'ready', time: new Date().toISOString(), ...started, pid: process.pid };
  process.stdout.write(`${JSON.stringify(line)}\n`);
  onReady?.(started.listen);
  process.on('SIGHUP', () => {
    supervisor.reload().catch((error: unknown) => process.stderr.write(`${describeFault(error)}\n`));
  });
  await new Promise<void>((resolve) => {
    let asked = false;
    const stop = (): void => {
      if (asked) process.exit(1);
      asked = true;
      void supervisor.stop().finally(resolve);
    };
    process.on('SIGTERM', stop);
    process.on('SIGINT', stop);
  });
  process.exit(0);
}
