/** Many keep-alive connections that send small requests, and how each of them ended. */
import { Agent, request as httpRequest } from 'node:http';
import { setTimeout as sleep } from 'node:timers/promises';

export type LoadSpec = Readonly<{
  port: number;
  path: string;
  method?: string;
  /** Sent as X-Forwarded-For: who asks, where the gate trusts this machine. */
  from?: string;
}>;

/** `status` 0: no answer came. */
export type LoadAnswer = Readonly<{ status: number; tookMs: number; atMs: number }>;

export type LoadClient = Readonly<{
  send(spec: LoadSpec): Promise<LoadAnswer>;
  close(): void;
}>;

const ANSWER_MS = 30_000;

/** `connections`: at most so many to each gate. */
export function loadClient(connections: number): LoadClient {
  const agent = new Agent({ keepAlive: true, maxSockets: connections, scheduling: 'fifo' });
  return {
    send({ port, path, method = 'GET', from }) {
      const atMs = performance.now();
      return new Promise((done) => {
        const end = (status: number): void => done({ status, tookMs: performance.now() - atMs, atMs });
        const headers = { host: 'app.test', ...(from === undefined ? {} : { 'x-forwarded-for': from }) };
        const to = { port, host: '127.0.0.1', path, method, headers };
        const call = httpRequest({ agent, ...to, timeout: ANSWER_MS });
        call.on('response', (answer) => {
          answer.resume();
          answer.once('end', () => end(answer.statusCode ?? 0));
          answer.once('error', () => end(0));
        });
        call.once('timeout', () => call.destroy());
        call.once('error', () => end(0));
        call.end();
      });
    },
    close: () => agent.destroy(),
  };
}

/**
 * Sends `perSecond` of what `next` gives until `over` says so, each at its time whether those before have
 * been answered or not; resolves with all answers.
 */
export async function paced(
  client: LoadClient,
  { perSecond, next, over }: Readonly<{ perSecond: number; next: () => LoadSpec; over: () => boolean }>,
): Promise<(LoadAnswer & LoadSpec)[]> {
  const sent: Promise<LoadAnswer & LoadSpec>[] = [];
  const fromMs = performance.now();
  while (!over()) {
    const due = Math.floor(((performance.now() - fromMs) * perSecond) / 1000);
    // What a busy machine is late with is made up for in small parts.
    for (let call = 0; call < 20 && sent.length < due; call++) {
      const spec = next();
      sent.push(client.send(spec).then((answer) => ({ ...spec, ...answer })));
    }
    await sleep(5);
  }
  return Promise.all(sent);
}

export function countBy(answers: readonly LoadAnswer[]): Record<number, number> {
  const counts: Record<number, number> = {};
  for (const { status } of answers) counts[status] = (counts[status] ?? 0) + 1;
  return counts;
}

/** `share`: from 0 to 1; in milliseconds. */
export function quantile(answers: readonly LoadAnswer[], share: number): number {
  const sorted = answers.map(({ tookMs }) => tookMs).sort((a, b) => a - b);
  return sorted[Math.floor(share * (sorted.length - 1))] ?? 0;
}
