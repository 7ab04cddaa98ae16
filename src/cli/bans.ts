/** `tidegate bans`: who is banned, since when, until when, why and by whom; or what was done about bans. */
import process from 'node:process';
import type { Command } from 'commander';
import type { BansShown } from '../admin/route.js';
import { loadConfig } from '../config/load.js';
import type { AuditEntry } from '../controls/ban-book-contract.js';
import { askGate } from './ask-gate.js';
import { printAudit, printBans } from './bans-print.js';
import type { CliCommand } from './command.js';

type Flags = Readonly<{ config: string; admin?: string; json?: true; audit?: true; evidence?: true }>;

export const bansCommand: CliCommand = {
  name: 'bans',
  register(program: Command) {
    program
      .command('bans')
      .description('show who is banned, until when, why and by whom')
      .requiredOption('-c, --config <file>', "the running gate's config file")
      .option('--evidence', 'with what each ban of a detector rests on')
      .option('--audit', 'what was done instead: banned, lifted, held back, put back')
      .option('--admin <url>', 'the admin listener, where it is not at admin.listen')
      .option('--json', 'print JSON')
      .action(async ({ config: file, admin, json, audit, evidence }: Flags) => {
        const config = await loadConfig(file);
        const show = (value: unknown, text: string): void =>
          void process.stdout.write(json ? `${JSON.stringify(value, null, 2)}\n` : text);
        if (audit === true) {
          const shown = await askGate(config, { url: admin, path: '/bans/audit' }, isAudit);
          return show(shown, printAudit(shown.entries));
        }
        const shown = await askGate(config, { url: admin, path: '/bans' }, isShown);
        show(shown, printBans(shown, { nowMs: Date.now(), evidence: evidence === true }));
      });
  },
};

const isObject = (body: unknown): body is object => typeof body === 'object' && body !== null;
const isShown = (body: unknown): body is BansShown => isObject(body) && 'bans' in body && 'total' in body;
const isAudit = (body: unknown): body is { entries: AuditEntry[] } => isObject(body) && 'entries' in body;
