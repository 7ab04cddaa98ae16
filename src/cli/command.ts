/**
 * The shape of a command. `register` adds it to the program; its action answers through `process.exitCode`.
 */
import type { Command } from 'commander';

export type CliCommand = Readonly<{
  name: string;
  register(program: Command): void;
}>;
