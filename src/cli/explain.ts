/**
 * `tidegate explain`: a request (curl's flags, raw text) or a decision's log line → its way through the
 * stages.
 */
import { readFile } from 'node:fs/promises';
import type { Command } from 'commander';
import { loadConfig } from '../config/load.js';
import type { Config } from '../config/schema.js';
import { behindNat64, canonicalAddress } from '../core/address.js';
import { Fault } from '../core/errors.js';
import type { DecisionEvent } from '../core/event.js';
import { openEngines } from './engines-once.js';
import type { CliCommand } from './command.js';
import { judgeOnce, type Judged } from './explain-judge.js';
import { explainEvent, wouldBeWritten } from './explain-print.js';
import { fromFlags, fromRaw, type CurlFlags, type ExplainRequest } from './explain-request.js';

type Options = Readonly<{
  config?: string;
  request?: string;
  header: string[];
  data: Piece[];
  form: string[];
  userAgent?: string;
  cookie?: string;
  client: string;
  count: number;
  answer: number;
  raw?: string;
  event?: string;
  json?: boolean;
}>;

/** Data flags keep the order they came in; only `--data-raw` takes a leading @ literally. */
type Piece = Readonly<{ kind: 'data' | 'raw' | 'binary'; text: string }>;

const COUNT_MAX = 100_000;

export const explainCommand: CliCommand = {
  name: 'explain',
  register(program: Command) {
    const data: Piece[] = [];
    const piece = (kind: Piece['kind']) => (text: string) => (data.push({ kind, text }), data);
    const gather = (text: string, list: string[]) => [...list, text];
    program
      .command('explain')
      .description(
        "judge a request without sending it, or read a decision's log line, and tell stage by stage why",
      )
      .argument('[url]', 'as for curl; its host chooses the site')
      .option('-c, --config <file>', 'config file (not needed with --event)')
      .option('-X, --request <method>', 'method')
      .option('-H, --header <line>', 'header field, `Name: value`; repeat for more', gather, [])
      .option('-d, --data <text>', 'form or JSON body; @file reads one', piece('data'))
      .option('--data-raw <text>', 'the same, @ taken literally', piece('raw'))
      .option('--data-binary <text>', 'the same, @file byte for byte', piece('binary'))
      .option('-F, --form <field>', 'multipart field, name=value or name=@file', gather, [])
      .option('-A, --user-agent <text>', 'User-Agent')
      .option('-b, --cookie <text>', 'Cookie')
      .option('--client <ip>', 'address the request comes from', '198.51.100.1')
      .option('--count <n>', 'judge it as the nth of its kind, for limits', wholeNumber, 1)
      .option('--answer <status>', 'what the origin answers, for limits that count answers', status, 200)
      .option('--raw <file>', 'the request as raw HTTP text; - reads standard input')
      .option('--event <file>', 'a log with decisions, the last one counts; - reads standard input')
      .option('--json', 'print the decision event instead')
      .action(async (url: string | undefined, options: Options) => {
        process.stdout.write(await explain(url, { ...options, data }));
      });
  },
};

/** The text to print. Throws Faults of loading, and EXPLAIN_INPUT. */
async function explain(url: string | undefined, options: Options): Promise<string> {
  if (options.event !== undefined) {
    const event = lastEvent((await input(options.event)).toString('utf8'));
    return options.json === true
      ? `${JSON.stringify(event, undefined, 2)}\n`
      : explainEvent(event, saidOf(event));
  }
  if (options.config === undefined) throw new Fault('EXPLAIN_INPUT', { why: 'no --config FILE' });
  const request = await readRequest(url, options);
  const config = await loadConfig(options.config);
  const { event, wouldChange } = await judgeNth(request, config, options);
  if (options.json === true) {
    return `${JSON.stringify(wouldChange === undefined ? event : { ...event, wouldChange }, undefined, 2)}\n`;
  }
  const telemetry = wouldBeWritten(event, config.log.passed);
  const change = wouldChange === undefined ? {} : { wouldChange };
  return explainEvent(event, { nth: options.count, telemetry, ...change });
}

async function judgeNth(
  request: ExplainRequest,
  config: Config,
  { client, count, answer }: Options,
): Promise<Judged> {
  const given = canonicalAddress(client);
  if (given === undefined) throw new Fault('EXPLAIN_INPUT', { why: `--client ${client} is not an address` });
  const ip = behindNat64(given);
  // Time stands still while the earlier ones are counted, so that the nth is always judged alike.
  const nowMs = Date.now();
  const engines = await openEngines(config, { nowMs: () => nowMs });
  try {
    for (let n = 1; ; n++) {
      const judged = await judgeOnce(request, engines.snapshot, {
        client: ip,
        nowMs,
        requestId: `explain-${n}`,
        answer,
      });
      if (n >= count) return judged;
    }
  } finally {
    await engines.close();
  }
}

async function readRequest(url: string | undefined, options: Options): Promise<ExplainRequest> {
  if (options.raw !== undefined) return fromRaw(await input(options.raw));
  if (url === undefined) throw new Fault('EXPLAIN_INPUT', { why: 'no URL' });
  const flags: CurlFlags = {
    url,
    headers: options.header,
    data: await Promise.all(options.data.map(bytesOf)),
    forms: await Promise.all(options.form.map(formOf)),
    ...(options.request === undefined ? {} : { method: options.request }),
    ...(options.userAgent === undefined ? {} : { userAgent: options.userAgent }),
    ...(options.cookie === undefined ? {} : { cookie: options.cookie }),
  };
  return fromFlags(flags);
}

async function bytesOf({ kind, text }: Piece): Promise<Buffer> {
  if (kind === 'raw' || !text.startsWith('@')) return Buffer.from(text);
  const bytes = await input(text.slice(1));
  return kind === 'binary' ? bytes : Buffer.from(bytes.toString('latin1').replace(/[\r\n]/g, ''), 'latin1');
}

async function formOf(field: string): Promise<CurlFlags['forms'][number]> {
  const at = field.indexOf('=');
  if (at < 1) throw new Fault('EXPLAIN_INPUT', { why: `-F "${field}" is not name=value` });
  const name = field.slice(0, at);
  const value = field.slice(at + 1);
  if (!value.startsWith('@')) return { name, value: Buffer.from(value) };
  const file = value.slice(1).replace(/;.*$/, '');
  return { name, value: await input(file), fileName: file.split('/').pop() ?? file };
}

async function input(file: string): Promise<Buffer> {
  try {
    if (file !== '-') return await readFile(file);
    const chunks: Buffer[] = [];
    for await (const chunk of process.stdin) chunks.push(Buffer.from(chunk as Uint8Array));
    return Buffer.concat(chunks);
  } catch (error) {
    throw new Fault('EXPLAIN_INPUT', { why: `${file} cannot be read` }, error);
  }
}

/** What `explain --json` adds to an event is understood when it is read again. */
function saidOf(event: DecisionEvent): { wouldChange?: string } {
  return 'wouldChange' in event && typeof event.wouldChange === 'string'
    ? { wouldChange: event.wouldChange }
    : {};
}

/** The last line that is a decision; lines of the operational log between them are passed by. */
export function lastEvent(text: string): DecisionEvent {
  for (const line of text.trim().split('\n').reverse()) {
    const parsed = parse(line);
    if (isEvent(parsed)) return parsed;
  }
  const whole = parse(text);
  if (isEvent(whole)) return whole;
  throw new Fault('EXPLAIN_INPUT', { why: 'it holds no decision event' });
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text) as unknown;
  } catch {
    return undefined;
  }
}

function isEvent(value: unknown): value is DecisionEvent {
  if (typeof value !== 'object' || value === null) return false;
  const has = value as Partial<Record<keyof DecisionEvent, unknown>>;
  if (typeof has.client !== 'object' || has.client === null || typeof has.durationUs !== 'object')
    return false;
  const texts = [has.requestId, has.method, has.path, has.action, has.reason, has.time, has.site, has.host];
  return (
    Array.isArray(has.steps) && Array.isArray(has.ruleIds) && texts.every((text) => typeof text === 'string')
  );
}

function status(text: string): number {
  const answer = Number(text);
  if (Number.isInteger(answer) && answer >= 200 && answer <= 599) return answer;
  throw new Fault('EXPLAIN_INPUT', { why: `--answer ${text} is not a status from 200 to 599` });
}

function wholeNumber(text: string): number {
  const count = Number(text);
  if (Number.isInteger(count) && count >= 1 && count <= COUNT_MAX) return count;
  throw new Fault('EXPLAIN_INPUT', { why: `--count ${text} is not a whole number from 1 to ${COUNT_MAX}` });
}
