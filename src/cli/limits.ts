/**
 * `tidegate limits`: what counts for one identity, what is left, when it is back; `--reset` sets it back. It
 * asks the running gate on its admin listener, which alone knows the counters and the key that secrets are
 * hashed with. What is given here as a secret is never printed.
 */
import { hostname, userInfo } from 'node:os';
import process from 'node:process';
import type { Command } from 'commander';
import type { LimitsAsk, LimitsShown } from '../admin/route.js';
import { loadConfig } from '../config/load.js';
import type { Config } from '../config/schema.js';
import { Fault } from '../core/errors.js';
import type { CliCommand } from './command.js';
import { printLimits } from './limits-print.js';

const WAIT_MS = 10_000;

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
        const shown = await askGate(config, { url: admin, path: reset ? '/limits/reset' : '/limits' }, ask);
        process.stdout.write(json ? `${JSON.stringify(shown, null, 2)}\n` : printLimits(shown, reset === true));
      });
  },
};

type Where = Readonly<{ url: string | undefined; path: string }>;

async function askGate(config: Config, { url, path }: Where, ask: LimitsAsk): Promise<LimitsShown> {
  const env = config.admin.tokenEnv;
  const token = process.env[env];
  if (token === undefined || token === '') throw new Fault('ADMIN_TOKEN_MISSING', { env });
  const base = url ?? `http://${config.admin.listen.replace(/^(?:0\.0\.0\.0|\[::\])?:/, '127.0.0.1:')}`;
  const unreachable = (why: string, cause?: unknown): Fault =>
    new Fault('ADMIN_UNREACHABLE', { url: base, why, env }, cause);
  let answer: Response;
  let body: unknown;
  try {
    answer = await fetch(new URL(path, base), {
      method: 'POST',
      headers: { Authorization: `Bearer ${token}`, 'Content-Type': 'application/json' },
      body: JSON.stringify({ ...ask, actor: `${userInfo().username}@${hostname()}` }),
      signal: AbortSignal.timeout(WAIT_MS),
    });
    body = await answer.json();
  } catch (error) {
    throw unreachable(error instanceof Error ? error.message : String(error), error);
  }
  if (answer.ok && isShown(body)) return body;
  throw refusal(body) ?? unreachable(`status ${answer.status}`);
}

function isShown(body: unknown): body is LimitsShown {
  return typeof body === 'object' && body !== null && 'limits' in body && Array.isArray(body.limits);
}

function refusal(body: unknown): Fault | undefined {
  if (typeof body !== 'object' || body === null) return undefined;
  const { error, remedy } = body as { error?: unknown; remedy?: unknown };
  if (typeof error !== 'string') return undefined;
  const what = typeof remedy === 'string' ? remedy : 'correct what was given; --help tells what there is';
  return new Fault('ADMIN_REFUSED', { why: error, remedy: what });
}
