/** `tidegate config-reference`: the reference page of every config key, as Markdown on standard output. */
import type { Command } from 'commander';
import { configReference } from '../config/reference.js';
import type { CliCommand } from './command.js';

export const configReferenceCommand: CliCommand = {
  name: 'config-reference',
  register(program: Command) {
    program
      .command('config-reference')
      .description('print every config key with type, default, range and meaning (Markdown)')
      .action(() => {
        process.stdout.write(configReference());
      });
  },
};
