/** What "blocked" and "passes" mean in these tests, and the canaries they use. */
import { createHash } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Test } from 'tap';
import { EchoUpstream } from './echo-upstream.js';
import { startGate, type ConfigTree, type Gate, type GateOptions } from './gate.js';
import { exchange, request, type Answer, type ReadOptions, type RequestSpec } from './raw-client.js';

export const SQLI = `' or 1=1 --`;
export const XSS = '<script>alert(1)</script>';
export const LFI = '../../etc/passwd';

export type Bench = { gate: Gate; up: EchoUpstream };

/** A gate in front of an echo upstream; both end with the test. */
export async function bench(
  t: Test,
  config: ConfigTree | string = {},
  options: GateOptions = {},
): Promise<Bench> {
  const up = await EchoUpstream.start();
  t.teardown(() => up.close());
  const gate = await startGate(config, { upstream: up.url, ...options });
  t.teardown(() => gate.stop());
  return { gate, up };
}

/** Resolves once the condition holds; false when it does not in time. */
export async function until(holds: () => boolean | Promise<boolean>, timeoutMs = 5000): Promise<boolean> {
  const deadline = Date.now() + timeoutMs;
  while (!(await holds())) {
    if (Date.now() > deadline) return false;
    await sleep(10);
  }
  return true;
}

export type Expected = { statuses?: readonly number[]; close?: boolean } & ReadOptions;

/** The gate answers 4xx (501 where allowed) and the origin sees no byte of the request. */
export async function blocked(
  t: Test,
  name: string,
  { gate, up }: Bench,
  sent: { bytes: Buffer | string } & Expected,
): Promise<Answer> {
  const before = up.bytesReceived;
  const answer = await exchange(gate.port, sent.bytes, sent);
  await sleep(10);
  const seen = up.bytesReceived - before;
  const fits = sent.statuses
    ? sent.statuses.includes(answer.status)
    : answer.status >= 400 && answer.status < 500;
  const wanted = sent.statuses?.join(' or ') ?? '4xx';
  t.ok(fits, `${name}: refused with ${wanted}`, { got: answer.status, timedOut: answer.timedOut });
  t.equal(seen, 0, `${name}: the origin saw no byte`);
  if (sent.close === true) t.ok(answer.closed, `${name}: the connection is closed`);
  return answer;
}

/** The origin answers 2xx and got the body byte for byte. */
export async function passes(
  t: Test,
  name: string,
  { gate, up }: Bench,
  spec: RequestSpec & { bytes?: Buffer },
): Promise<Answer> {
  const before = up.requests.length;
  const answer = await exchange(gate.port, spec.bytes ?? request(spec));
  const why = answer.status === 200 ? {} : { got: answer.status, findings: await findingsOf(gate, answer) };
  t.equal(answer.status, 200, `${name}: passes`, why);
  if (spec.body === undefined || answer.status !== 200) return answer;
  const body = Buffer.from(spec.body as string, 'latin1');
  const seen = up.requests[before];
  t.equal(
    seen?.sha256,
    createHash('sha256').update(body).digest('hex'),
    `${name}: the body arrives byte for byte`,
  );
  return answer;
}

/** The request id the client was given: in the body, or in a header. */
export function requestIdOf(answer: Answer): string {
  const inBody = /"request_?id"\s*:\s*"([^"]+)"/i.exec(answer.text())?.[1];
  return inBody ?? answer.header('x-request-id') ?? '';
}

/** Findings in the log for this answer, as `id evidence`, for the failure's text. */
export async function findingsOf(gate: Gate, answer: Answer): Promise<string[]> {
  const id = requestIdOf(answer);
  if (id === '') return ['no request id'];
  try {
    const event = await gate.event(({ requestId }) => requestId === id, 1000);
    return event.steps
      .flatMap(({ findings }) => findings)
      .map(({ id: rule, evidence }) => `${rule} ${evidence?.text ?? ''}`);
  } catch {
    return ['no event'];
  }
}

export type Part = { head: readonly string[]; body: string | Buffer };

/** A multipart body; heads are given line by line, as they are sent. */
export function multipart(parts: readonly Part[], boundary = 'bb'): Buffer {
  const pieces = parts.flatMap(({ head, body }) => [
    Buffer.from(`--${boundary}\r\n${head.map((line) => `${line}\r\n`).join('')}\r\n`, 'latin1'),
    Buffer.from(body as string, 'latin1'),
    Buffer.from('\r\n'),
  ]);
  return Buffer.concat([...pieces, Buffer.from(`--${boundary}--\r\n`)]);
}

export const MULTIPART = ['Content-Type', 'multipart/form-data; boundary=bb'] as const;
export const FORM = ['Content-Type', 'application/x-www-form-urlencoded'] as const;
export const JSON_TYPE = ['Content-Type', 'application/json'] as const;
