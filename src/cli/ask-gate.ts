/**
 * Asks the running gate on its admin listener, which alone knows its counters, its bans and the key that
 * secrets are hashed with. What is sent may hold a secret and is never printed.
 */
import { hostname, userInfo } from 'node:os';
import process from 'node:process';
import type { Config } from '../config/schema.js';
import { Fault } from '../core/errors.js';

const WAIT_MS = 10_000;

/** `url`: the listener, where it is not at `admin.listen`; without a body it is a GET. */
export type GateAsk = Readonly<{
  url: string | undefined;
  path: string;
  body?: Readonly<Record<string, unknown>>;
}>;

/**
 * What the gate answers, as far as `fits` takes it. Throws a Fault: the gate's own, or ADMIN_UNREACHABLE.
 */
export async function askGate<T>(
  config: Config,
  ask: GateAsk,
  fits: (body: unknown) => body is T,
): Promise<T> {
  const env = config.admin.tokenEnv;
  const token = process.env[env];
  if (ask.body !== undefined && (token === undefined || token === ''))
    throw new Fault('ADMIN_TOKEN_MISSING', { env });
  const base = ask.url ?? `http://${config.admin.listen.replace(/^(?:0\.0\.0\.0|\[::\])?:/, '127.0.0.1:')}`;
  const unreachable = (why: string, cause?: unknown): Fault =>
    new Fault('ADMIN_UNREACHABLE', { url: base, why, env }, cause);
  let answer: Response;
  let body: unknown;
  try {
    answer = await fetch(new URL(ask.path, base), {
      ...(ask.body === undefined ? {} : posted(ask.body, token ?? '')),
      signal: AbortSignal.timeout(WAIT_MS),
    });
    body = await answer.json();
  } catch (error) {
    throw unreachable(error instanceof Error ? error.message : String(error), error);
  }
  if (answer.ok && fits(body)) return body;
  throw refusal(body) ?? unreachable(`status ${answer.status}`);
}

function posted(body: Readonly<Record<string, unknown>>, token: string): RequestInit {
  return {
    method: 'POST',
    headers: { Authorization: `Bearer ${token}`, 'Content-Type': 'application/json' },
    body: JSON.stringify({ ...body, actor: `${userInfo().username}@${hostname()}` }),
  };
}

function refusal(body: unknown): Fault | undefined {
  if (typeof body !== 'object' || body === null) return undefined;
  const { error, remedy } = body as { error?: unknown; remedy?: unknown };
  if (typeof error !== 'string') return undefined;
  const what = typeof remedy === 'string' ? remedy : 'correct what was given; --help tells what there is';
  return new Fault('ADMIN_REFUSED', { why: error, remedy: what });
}
