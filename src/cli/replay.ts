/**
 * `tidegate replay`: recorded decisions through the detectors, dry, with a report of what would have been
 * banned when and why. Nothing is written anywhere.
 */
import type { Command } from 'commander';
import { loadConfig } from '../config/load.js';
import { configSchema, type Config } from '../config/schema.js';
import { Fault } from '../core/errors.js';
import { replayFile } from '../roles/replay.js';
import { replayTopic } from '../roles/replay-topic.js';
import type { CliCommand } from './command.js';
import { printReplay } from './replay-print.js';

type Flags = Readonly<{ config?: string; json?: true; from?: string; to?: string }>;

export const replayCommand: CliCommand = {
  name: 'replay',
  register(program: Command) {
    program
      .command('replay')
      .description(
        'put recorded decisions through the detectors, dry: what would have been banned when and why',
      )
      .argument(
        '<source>',
        'log file (JSON lines, also .gz), `-` for standard input, `topic` for the topic of the config',
      )
      .option('-c, --config <file>', 'config file with the thresholds; the defaults without it')
      .option('--from <time>', 'only events from then on, such as 2026-03-01T10:00Z')
      .option('--to <time>', 'only events before then')
      .option('--json', 'print JSON, with every ban')
      .action(async (source: string, { config: file, json, from, to }: Flags) => {
        const config = file === undefined ? defaults() : await loadConfig(file);
        const log = (level: string, text: string): void => void process.stderr.write(`${level}: ${text}\n`);
        const ask = { config, source, fromMs: timeOf(from), toMs: timeOf(to), log };
        const replayed = await (source === 'topic' ? replayTopic(ask) : replayFile(ask));
        if (replayed.cut !== undefined) log('warn', `${source} was not read to its end: ${replayed.cut}`);
        process.stdout.write(json ? `${JSON.stringify(shown(replayed), null, 2)}\n` : printReplay(replayed));
      });
  },
};

function defaults(): Config {
  const sites = [{ name: 'any', hosts: ['any.invalid'], upstreams: ['http://127.0.0.1:1'] }];
  return { ...configSchema.parse({ sites }), baseDir: process.cwd() };
}

function timeOf(text: string | undefined): number | undefined {
  if (text === undefined) return undefined;
  const ms = Date.parse(text);
  if (Number.isNaN(ms)) throw new Fault('REPLAY_TIME', { text });
  return ms;
}

/** Maps do not survive JSON. */
function shown({ stats, ...rest }: Awaited<ReturnType<typeof replayFile>>): unknown {
  const { fates, rejected, detectors, held, acts } = stats;
  return { ...rest, stats: { fates, rejected, detectors, held, outcomes: acts.outcomes } };
}
