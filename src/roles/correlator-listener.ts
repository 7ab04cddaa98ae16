/** What `tidegate correlate` answers over HTTP: `/metrics` for Prometheus, `/healthz` for whoever watches. */
import http from 'node:http';
import type { AddressInfo } from 'node:net';
import { isOurs } from '../admin/server.js';
import { Fault } from '../core/errors.js';
import { splitAddress } from '../proxy/gate.js';

export type Answers = Readonly<{
  /** Prometheus text. */
  metrics(): Promise<string>;
  health(): Readonly<{ ok: boolean } & Record<string, unknown>>;
}>;

export type Listener = Readonly<{
  /** Answers its URL. Throws LISTEN_FAILED. */
  listen(): Promise<string>;
  close(): Promise<void>;
}>;

/** `hosts`: names in the Host header besides localhost and bare addresses; see the admin listener. */
export function createListener(address: string, hosts: readonly string[], answers: Answers): Listener {
  const server = http.createServer({ maxHeaderSize: 16 * 1024 }, (request, response) => {
    request.resume();
    void answer(request, hosts, answers).then(({ status, type, text }) => {
      response.writeHead(status, { 'Content-Type': type, 'Cache-Control': 'no-store' });
      response.end(text);
    });
  });
  server.requestTimeout = 10_000;
  server.headersTimeout = 5_000;
  server.maxConnections = 64;
  const { host, port } = splitAddress(address);
  return {
    listen: () =>
      new Promise((resolve, reject) => {
        server.once('error', (error) =>
          reject(new Fault('LISTEN_FAILED', { address, why: error.message }, error)),
        );
        server.listen(port, host, () => {
          const bound = server.address() as AddressInfo;
          resolve(`http://${bound.family === 'IPv6' ? `[${bound.address}]` : bound.address}:${bound.port}`);
        });
      }),
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
}

type Answer = Readonly<{ status: number; type: string; text: string }>;

async function answer(
  { method, url = '/', headers }: http.IncomingMessage,
  hosts: readonly string[],
  answers: Answers,
): Promise<Answer> {
  const json = (status: number, body: unknown): Answer => ({
    status,
    type: 'application/json',
    text: JSON.stringify(body),
  });
  if (!isOurs(headers.host ?? '', hosts)) return json(421, { error: 'ask by address or localhost' });
  if (method !== 'GET' && method !== 'HEAD') return json(405, { error: 'use GET' });
  switch (url.split('?', 1)[0]) {
    case '/metrics':
      try {
        return {
          status: 200,
          type: 'text/plain; version=0.0.4; charset=utf-8',
          text: await answers.metrics(),
        };
      } catch (error) {
        return json(500, { error: error instanceof Error ? error.message : String(error) });
      }
    case '/healthz': {
      const health = answers.health();
      return json(health.ok ? 200 : 503, health);
    }
    default:
      return json(404, { error: 'there is /metrics and /healthz' });
  }
}
