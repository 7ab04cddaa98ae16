/**
 * `tidegate limits`: what counts for one identity, what is left, when it is back; `--reset` sets it back. It
 * asks the running gate on its admin listener, which alone knows the counters and the key that secrets are
 * hashed with. What is given here as a secret is never printed.
 */
import process from 'node:process';
import type { Command } from 'commander';
import type { LimitsAsk, LimitsShown } from '../admin/route.js';
import { loadConfig } from '../config/load.js';
import { askGate } from './ask-gate.js';
import type { CliCommand } from './command.js';
import { printLimits } from './limits-print.js';

type Flags = LimitsAsk & Readonly<{ config: string; admin?: string; json?: true; reset?: true }>;

export const limitsCommand: CliCommand = {
  name: 'limits',
  register(program: Command) {
    program
      .command('limits')
      .description('show what counts for one identity, what is left and when it is back; or set it back')
      .requiredOption('-c, --config <file>', "the running gate's config file")
      .option('--ip <address>', 'client address')
      .option('--session <value>', 'value of the session cookie')
      .option('--key <value>', 'API key')
      .option('--user <name>', 'user name')
      .option('--policy <name>', 'this policy only')
      .option('--path <path>', 'only policies that count this path')
      .option('--method <method>', 'and this method (GET)')
      .option('--host <name>', 'and this host')
      .option('--site <name>', 'and this site')
      .option('--admin <url>', 'the admin listener, where it is not at admin.listen')
      .option('--reset', 'set back what is shown')
      .option('--json', 'print JSON')
      .action(async ({ config: file, admin, json, reset, ...ask }: Flags) => {
        const config = await loadConfig(file);
        const path = reset ? '/limits/reset' : '/limits';
        const shown = await askGate(config, { url: admin, path, body: ask }, isShown);
        process.stdout.write(json ? `${JSON.stringify(shown, null, 2)}\n` : printLimits(shown, reset === true));
      });
  },
};

function isShown(body: unknown): body is LimitsShown {
  return typeof body === 'object' && body !== null && 'limits' in body && Array.isArray(body.limits);
}
