/**
 * `tidegate check`: loads everything that starting would load, and says `ok` with a summary or names every
 * problem.
 */
import type { Command } from 'commander';
import { loadConfig } from '../config/load.js';
import type { Config } from '../config/schema.js';
import { systemClock } from '../core/clock.js';
import type { Engines } from '../roles/engines.js';
import { adminToken, tryListeners } from '../roles/start-checks.js';
import { openEngines } from './engines-once.js';
import type { CliCommand } from './command.js';

export const checkCommand: CliCommand = {
  name: 'check',
  register(program: Command) {
    program
      .command('check')
      .description(
        'load the config, rules, lists and databases as starting would; exit code 1 where something is wrong',
      )
      .requiredOption('-c, --config <file>', 'config file')
      .action(async ({ config: file }: { config: string }) => {
        const config = await loadConfig(file);
        adminToken(config, process.env);
        const warnings = await tryListeners(config);
        const engines = await openEngines(config, systemClock, (message) => warnings.push(message));
        await engines.close();
        process.stdout.write(summary(config, engines, warnings));
      });
  },
};

/** What was found, a line each. */
export function summary(
  config: Config,
  engines: Pick<Engines, 'ruleCount'>,
  warnings: readonly string[],
): string {
  const listen = config.listen.map(
    ({ address, tls }) => `${tls === undefined ? 'http' : 'https'}://${address}`,
  );
  const sites = config.sites.map((site) => {
    const mode = (site.mode ?? config.mode) === 'observe' ? ', only observed' : '';
    return `  site ${site.name}: ${site.hosts.join(', ')} → ${site.upstreams.join(', ')}${mode}`;
  });
  const { allowlist, blocklist, tor, asn } = config.reputation;
  const lists = [
    ...(allowlist === undefined ? [] : [`allowlist ${allowlist}`]),
    ...(blocklist === undefined ? [] : [`blocklist ${blocklist}`]),
    ...(tor === undefined ? [] : [`tor exits ${tor.file ?? tor.url ?? ''}`]),
    ...(asn === undefined ? [] : [`networks ${asn.database}`]),
  ];
  return [
    ...warnings.map((warning) => `warning: ${warning}`),
    'ok',
    `  listens on ${listen.join(', ')}`,
    ...sites,
    `  rules: ${engines.ruleCount}`,
    ...(lists.length === 0 ? [] : [`  reputation: ${lists.join(', ')}`]),
    ...(config.admin.enabled ? [`  admin on http://${config.admin.listen}`] : []),
    '',
  ].join('\n');
}
