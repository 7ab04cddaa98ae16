/** Every command, in the order of the help page, and how their errors are told. */
import { readFileSync } from 'node:fs';
import { Command } from 'commander';
import { describeFault, Fault } from '../core/errors.js';
import { banCommand } from './ban.js';
import { bansCommand } from './bans.js';
import { checkCommand } from './check.js';
import type { CliCommand } from './command.js';
import { configReferenceCommand } from './config-reference.js';
import { correlateCommand } from './correlate.js';
import { demoCommand } from './demo.js';
import { explainCommand } from './explain.js';
import { limitsCommand } from './limits.js';
import { replayCommand } from './replay.js';
import { serveCommand } from './serve.js';
import { unbanCommand } from './unban.js';
import { xdpCommand } from './xdp.js';

export const commands: readonly Pick<CliCommand, 'register'>[] = [
  serveCommand,
  checkCommand,
  explainCommand,
  limitsCommand,
  banCommand,
  unbanCommand,
  bansCommand,
  correlateCommand,
  replayCommand,
  xdpCommand,
  demoCommand,
  configReferenceCommand,
];

/** Runs one command line (`process.argv`); answers the exit code: 0 well, 1 a fault, 2 wrong arguments. */
export async function run(argv: readonly string[]): Promise<number> {
  const program = new Command('tidegate')
    .description(
      'WAF reverse proxy and rate limiter: judges every request in six stages and explains each verdict',
    )
    .version(version(), '-v, --version')
    .enablePositionalOptions()
    .exitOverride()
    .showHelpAfterError('(run with --help for what there is)');
  for (const command of commands) command.register(program);
  try {
    await program.parseAsync([...argv]);
    return Number(process.exitCode ?? 0);
  } catch (error) {
    if (error instanceof Error && 'exitCode' in error && 'code' in error) return error.exitCode === 0 ? 0 : 2;
    process.stderr.write(`${describeFault(error)}\n`);
    if (!(error instanceof Fault) && error instanceof Error) process.stderr.write(`${error.stack ?? ''}\n`);
    return 1;
  }
}

/** Of package.json, whether the code runs from src or from dist/src. */
function version(): string {
  for (const up of ['../../package.json', '../../../package.json']) {
    try {
      const read: unknown = JSON.parse(readFileSync(new URL(up, import.meta.url), 'utf8'));
      if (typeof read === 'object' && read !== null && 'version' in read) return String(read.version);
    } catch {
      continue;
    }
  }
  return 'unknown';
}
