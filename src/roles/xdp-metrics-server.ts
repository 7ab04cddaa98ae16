/** A small listener on loopback for Prometheus: `/metrics` and `/healthz`, nothing else, reading only. */
import http from 'node:http';
import type { AddressInfo, Socket } from 'node:net';
import type { Registry } from 'prom-client';
import { isOurs } from '../admin/server.js';
import { Fault } from '../core/errors.js';

export type MetricsServer = Readonly<{
  /** Answers its URL. Throws LISTEN_FAILED. */
  listen(): Promise<string>;
  close(): Promise<void>;
}>;

const CONNECTIONS_MAX = 64;

/** Of too many connections the one that has been idle longest is closed, so that a scrape finds room. */
function boundConnections(server: http.Server): void {
  // In the order of their last request, the busy ones not among them.
  const idle = new Set<Socket>();
  let count = 0;
  server.on('connection', (socket: Socket) => {
    count++;
    if (count > CONNECTIONS_MAX) {
      const oldest = idle.values().next().value ?? socket;
      idle.delete(oldest);
      oldest.destroy();
    }
    if (!socket.destroyed) idle.add(socket);
    socket.once('close', () => {
      count--;
      idle.delete(socket);
    });
  });
  server.on('request', ({ socket }: http.IncomingMessage, response: http.ServerResponse) => {
    idle.delete(socket);
    response.once('close', () => {
      if (!socket.destroyed) idle.add(socket);
    });
  });
}

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
  boundConnections(server);
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
