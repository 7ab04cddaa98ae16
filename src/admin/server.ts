/**
 * The admin listener, in the supervisor. Meant for loopback: a Host header that is no loopback name is refused, so
 * that a web page in the operator's browser cannot reach it by DNS rebinding. Changes need the Bearer token.
 */
import { timingSafeEqual, createHash } from 'node:crypto';
import http, { type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { describeFault, Fault } from '../core/errors.js';
import type { AdminState } from './route.js';
import { ADMIN_ROUTES } from './routes/index.js';

export type AdminServer = {
  /** Answers its URL. Throws LISTEN_FAILED. */
  listen(): Promise<string>;
  close(): Promise<void>;
};

type Options = Readonly<{ host: string; port: number; token: string | undefined; tokenEnv: string }>;

const LOOPBACK = /^(?:localhost|127(?:\.\d{1,3}){3}|\[::1\])(?::\d{1,5})?$/i;

export function createAdminServer(state: AdminState, options: Options): AdminServer {
  const server = http.createServer((request, response) => {
    answer(state, { request, response }, options).catch((error: unknown) => {
      send(response, 500, { error: describeFault(error) });
    });
  });
  server.requestTimeout = 10_000;
  server.headersTimeout = 5_000;
  server.maxConnections = 256;
  return {
    listen: () =>
      new Promise((resolve, reject) => {
        server.once('error', (error) => {
          reject(new Fault('LISTEN_FAILED', { address: `${options.host}:${options.port}`, why: error.message }, error));
        });
        server.listen(options.port, options.host, () => {
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

type Pair = Readonly<{ request: IncomingMessage; response: ServerResponse }>;

async function answer(state: AdminState, { request, response }: Pair, options: Options): Promise<void> {
  request.resume();
  const host = request.headers.host ?? '';
  if (!LOOPBACK.test(host) && host !== `${options.host}:${options.port}`) {
    return send(response, 421, { error: 'the admin listener answers to loopback names only' });
  }
  const path = (request.url ?? '/').split('?', 1)[0] ?? '/';
  const named = ADMIN_ROUTES.filter((route) => route.path.test(path));
  if (named.length === 0) return send(response, 404, { error: 'no such resource', see: KNOWN });
  const route = named.find((each) => each.method === (request.method === 'HEAD' ? 'GET' : request.method));
  if (route === undefined) return send(response, 405, { error: `use ${named.map((each) => each.method).join(' or ')}` });
  if (route.method !== 'GET') {
    const refusal = tokenProblem(request, options);
    if (refusal !== undefined) return send(response, refusal.status, { error: refusal.error });
  }
  const part = route.path.exec(path)?.[1] ?? '';
  const { status, type, body } = await route.answer(state, part);
  if (type === 'json') return send(response, status, body);
  response.writeHead(status, { 'Content-Type': 'text/plain; version=0.0.4; charset=utf-8', 'Cache-Control': 'no-store' });
  response.end(String(body));
}

function tokenProblem(request: IncomingMessage, options: Options): { status: number; error: string } | undefined {
  if (options.token === undefined || options.token === '') {
    const fault = new Fault('ADMIN_TOKEN_MISSING', { env: options.tokenEnv });
    return { status: 403, error: `${fault.message}: ${fault.remedy}` };
  }
  const given = /^Bearer (.+)$/i.exec(request.headers.authorization ?? '')?.[1] ?? '';
  const digest = (text: string): Buffer => createHash('sha256').update(text).digest();
  if (timingSafeEqual(digest(given), digest(options.token))) return undefined;
  return { status: 401, error: 'a Bearer token is needed to change anything' };
}

const KNOWN = ['/healthz', '/readyz', '/metrics', '/decisions', '/decisions/{requestId}', '/controls', 'POST /reload'];

function send(response: ServerResponse, status: number, body: unknown): void {
  if (response.headersSent) return void response.destroy();
  const text = JSON.stringify(body);
  response.writeHead(status, {
    'Content-Type': 'application/json',
    'Content-Length': Buffer.byteLength(text),
    'Cache-Control': 'no-store',
    ...(status === 401 ? { 'WWW-Authenticate': 'Bearer' } : {}),
  });
  response.end(text);
}
