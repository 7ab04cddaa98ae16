/** A small listener on loopback for Prometheus: `/metrics` and `/healthz`, nothing else, reading only. */
import http from 'node:http';
import type { AddressInfo } from 'node:net';
import type { Registry } from 'prom-client';
import { isOurs } from '../admin/server.js';
import { Fault } from '../core/errors.js';

export type MetricsServer = Readonly<{
  /** Answers its URL. Throws LISTEN_FAILED. */
  listen(): Promise<string>;
  close(): Promise<void>;
}>;

export function createMetricsServer(address: string, registry: Registry): MetricsServer {
  const colon = address.lastIndexOf(':');
  const host = address.slice(0, colon).replace(/^\[|\]$/g, '');
  const server = http.createServer({ maxHeaderSize: 8 * 1024 }, (request, response) => {
    const send = (status: number, text: string): void => {
      response.writeHead(status, { 'Content-Type': 'text/plain; version=0.0.4; charset=utf-8' });
      response.end(text);
    };
    const path = (request.url ?? '/').split('?', 1)[0];
    request.resume();
    if (!isOurs(request.headers.host ?? '', []))
      send(421, 'this listener answers to localhost and bare addresses\n');
    else if (request.method !== 'GET') send(405, 'use GET\n');
    else if (path === '/healthz') send(200, 'ok\n');
    else if (path !== '/metrics') send(404, 'there is /metrics and /healthz\n');
    else
      registry.metrics().then(
        (text) => send(200, text),
        (error: unknown) => send(500, `${String(error)}\n`),
      );
  });
  server.requestTimeout = 10_000;
  server.maxConnections = 64;
  return {
    listen: () =>
      new Promise((resolve, reject) => {
        server.once('error', (error) =>
          reject(new Fault('LISTEN_FAILED', { address, why: error.message }, error)),
        );
        server.listen(Number(address.slice(colon + 1)), host, () => {
          const bound = server.address() as AddressInfo;
          resolve(
            `http://${bound.family === 'IPv6' ? `[${bound.address}]` : bound.address}:${bound.port}/metrics`,
          );
        });
      }),
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
}
