/** `tidegate unban`: lifts a ban. What led to it does not bring it back; what comes later may. */
import process from 'node:process';
import type { Command } from 'commander';
import { loadConfig } from '../config/load.js';
import type { Ban } from '../controls/ban.js';
import { askGate } from './ask-gate.js';
import { targetOf, whom } from './ban.js';
import { printLifted } from './bans-print.js';
import type { CliCommand } from './command.js';

type Flags = Partial<Record<'session' | 'key' | 'ja4' | 'headers', string>> &
  Readonly<{ config: string; admin?: string; json?: true; reason: string }>;

export const unbanCommand: CliCommand = {
  name: 'unban',
  register(program: Command) {
    whom(program.command('unban').description('lift a ban'))
      .requiredOption('--reason <text>', 'why; kept in the audit trail')
      .option('--json', 'print JSON')
      .action(async (address: string | undefined, flags: Flags, command: Command) => {
        const { config: file, admin, json, reason } = flags;
        const target = targetOf(address, flags, command);
        const config = await loadConfig(file);
        const ask = { url: admin, path: '/bans/lift', body: { ...target, reason } };
        const { lifted } = await askGate(config, ask, isLifted);
        process.stdout.write(json ? `${JSON.stringify(lifted, null, 2)}\n` : printLifted(lifted, Date.now()));
      });
  },
};

function isLifted(body: unknown): body is { lifted: Ban } {
  return typeof body === 'object' && body !== null && 'lifted' in body;
}
