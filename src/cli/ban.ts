/** `tidegate ban`: an operator bans an address, a network, a session, a key or a fingerprint for a while. */
import process from 'node:process';
import type { Command } from 'commander';
import type { BanMade } from '../admin/route.js';
import { loadConfig } from '../config/load.js';
import { askGate } from './ask-gate.js';
import { printMade } from './bans-print.js';
import type { CliCommand } from './command.js';

type Target = Partial<Record<'session' | 'key' | 'ja4' | 'headers', string>>;
type Flags = Target &
  Readonly<{
    config: string;
    admin?: string;
    json?: true;
    for: string;
    reason: string;
    observe?: true;
    force?: true;
  }>;

export const banCommand: CliCommand = {
  name: 'ban',
  register(program: Command) {
    whom(program.command('ban').description('ban an address, a network, a session, a key or a fingerprint'))
      .requiredOption('--reason <text>', 'why; written down with it and shown in events')
      .option('--for <duration>', 'how long, such as 15m, 1h or 7d', '1h')
      .option('--observe', 'only write down what it would refuse')
      .option('--force', 'also where it holds somebody on the allowlist, who stays welcome')
      .option('--json', 'print JSON')
      .action(async (address: string | undefined, flags: Flags, command: Command) => {
        const { config: file, admin, json, reason, observe, force } = flags;
        const target = targetOf(address, flags, command);
        const config = await loadConfig(file);
        const body = { ...target, reason, for: flags.for, observe: observe === true, force: force === true };
        const made = await askGate(config, { url: admin, path: '/bans', body }, isMade);
        process.stdout.write(json ? `${JSON.stringify(made, null, 2)}\n` : printMade(made, Date.now()));
      });
  },
};

/** The options by which all commands on bans name somebody. */
export function whom(command: Command): Command {
  return command
    .argument('[address]', 'an address, or a network such as 203.0.113.0/24')
    .requiredOption('-c, --config <file>', "the running gate's config file")
    .option('--session <value>', 'value of the session cookie')
    .option('--key <value>', 'API key')
    .option('--ja4 <fingerprint>', 'TLS fingerprint (JA4); without effect until events carry one')
    .option('--headers <hash>', 'header hash, as events show it')
    .option('--admin <url>', 'the admin listener, where it is not at admin.listen');
}

/** Exactly one; ends the command with how it is used otherwise. */
export function targetOf(
  address: string | undefined,
  { session, key, ja4, headers }: Target,
  command: Command,
): Readonly<Record<string, string>> {
  const given = Object.entries({ address, session, key, ja4, headers }).filter(
    (entry): entry is [string, string] => entry[1] !== undefined,
  );
  if (given.length !== 1)
    command.error('error: name one: an address or network, --session, --key, --ja4 or --headers');
  return Object.fromEntries(given);
}

function isMade(body: unknown): body is BanMade {
  return typeof body === 'object' && body !== null && 'ban' in body && 'notes' in body;
}
