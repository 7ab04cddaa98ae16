/**
 * What Redis, or the connection to it, said went wrong → a Fault. Every one is a failed call that the
 * policy's onFailure answers, never a consent. Errors of the client carry the command with its arguments (a
 * password may be among them), so that they are never kept as a cause: their words are.
 */
import { Fault, type FaultCode } from '../core/errors.js';

type Kind = Readonly<{ code: FaultCode; fits: RegExp }>;

/** Servers before 7 wrap the words of a command that failed in a script: `… @user_script: 5: -OOM …`. */
const KINDS: readonly Kind[] = [
  { code: 'REDIS_LOADING', fits: /^LOADING\b/ },
  { code: 'REDIS_BUSY', fits: /^BUSY\b/ },
  { code: 'REDIS_OOM', fits: /(?:^|-)OOM\b/ },
  { code: 'REDIS_READONLY', fits: /(?:^|-)READONLY\b/ },
  { code: 'REDIS_NO_WRITES', fits: /(?:^|-)(?:MISCONF|NOREPLICAS)\b/ },
  { code: 'REDIS_AUTH', fits: /(?:^|-)(?:NOAUTH|WRONGPASS|NOPERM)\b|\bAUTH\b.*\bpassword\b/ },
  {
    code: 'REDIS_CLUSTER',
    fits: /^(?:CLUSTERDOWN|CROSSSLOT|TRYAGAIN|MOVED|ASK)\b|Cluster redirections/,
  },
  { code: 'REDIS_DATABASE', fits: /\bDB index\b|^database \d+ is not selected/ },
  { code: 'REDIS_UNREACHABLE', fits: /^MASTERDOWN\b/ },
];

const WORDS_MAX = 200;

/** `address`: without user and password. */
export function redisFault(error: unknown, address: string): Fault {
  if (error instanceof Fault) return error;
  const words = (error instanceof Error ? error.message : String(error)).slice(0, WORDS_MAX);
  const kind = KINDS.find(({ fits }) => fits.test(words));
  const isReply = error instanceof Error && error.name === 'ReplyError';
  const code = kind?.code ?? (isReply ? 'REDIS_SCRIPT' : 'REDIS_UNREACHABLE');
  return new Fault(code, { address, why: plain(words) });
}

export function isNoScript(error: unknown): boolean {
  return error instanceof Error && error.message.startsWith('NOSCRIPT');
}

export function isReadOnly(error: Error): boolean {
  return /(?:^|-)READONLY\b/.test(error.message);
}

/** The client's own words for a connection that is not there say little to a reader of logs. */
function plain(words: string): string {
  return /^Stream isn't writeable|^Connection is closed|^Reached the max retries/.test(words)
    ? 'the connection is closed'
    : words;
}
