/**
 * The admin listener, in the supervisor. Meant for loopback: a Host header that is a name, but none of ours,
 * is refused, so that a web page in the operator's browser cannot reach it by DNS rebinding (bare addresses
 * cannot be rebound). Changes need the Bearer token.
 */
import { createHash, timingSafeEqual } from 'node:crypto';
import http, { type IncomingMessage, type ServerResponse } from 'node:http';
import { isIP, type AddressInfo } from 'node:net';
import { describeFault, Fault } from '../core/errors.js';
import { refused, type AdminAnswer, type AdminRoute, type AdminState } from './route.js';
import { ADMIN_ROUTES } from './routes/index.js';

export type AdminServer = {
  /** Answers its URL. Throws LISTEN_FAILED. */
  listen(): Promise<string>;
  close(): Promise<void>;
};

export type AdminOptions = Readonly<{
  host: string;
  port: number;
  /** Names in the Host header, besides localhost and bare addresses. */
  hosts: readonly string[];
  token: string | undefined;
  tokenEnv: string;
}>;

const BODY_BYTES_MAX = 16 * 1024;
const KNOWN = [
  ...['/healthz', '/readyz', '/metrics', '/decisions', '/decisions/{requestId}', '/controls'],
  ...['/bans', '/bans/audit', 'POST /bans', 'POST /bans/lift'],
  ...['POST /reload', 'POST /mode', 'POST /limits', 'POST /limits/reset'],
];

export function createAdminServer(state: AdminState, options: AdminOptions): AdminServer {
  const server = http.createServer({ maxHeaderSize: 16 * 1024 }, (request, response) => {
    answer(state, request, options).then(
      (given) => send(response, given),
      (error: unknown) => send(response, refused(500, describeFault(error))),
    );
  });
  server.requestTimeout = 10_000;
  server.headersTimeout = 5_000;
  server.maxConnections = 256;
  return {
    listen: () =>
      new Promise((resolve, reject) => {
        server.once('error', (error) => {
          reject(
            new Fault(
              'LISTEN_FAILED',
              { address: `${options.host}:${options.port}`, why: error.message },
              error,
            ),
          );
        });
        server.listen(options.port, options.host, () => {
          const bound = server.address() as AddressInfo;
          const literal = bound.family === 'IPv6' ? `[${bound.address}]` : bound.address;
          resolve(`http://${literal}:${bound.port}`);
        });
      }),
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
}

async function answer(
  state: AdminState,
  request: IncomingMessage,
  options: AdminOptions,
): Promise<AdminAnswer> {
  const path = (request.url ?? '/').split('?', 1)[0] ?? '/';
  const chosen = routeFor(path, request, options);
  if ('status' in chosen || chosen.method === 'GET') request.resume();
  if ('status' in chosen) return chosen;
  const part = chosen.path.exec(path)?.[1] ?? '';
  const peer = request.socket.remoteAddress ?? '';
  if (chosen.method === 'GET') return chosen.answer(state, { part, peer, body: undefined });
  const text = await bodyOf(request);
  if (text === undefined) return refused(413, `the body is larger than ${BODY_BYTES_MAX} bytes`);
  const body = parsed(text);
  if (body instanceof Error) return refused(400, `the body is not JSON: ${body.message}`);
  return chosen.answer(state, { part, peer, body });
}

/** The resource, or why there is none for this caller. */
function routeFor(path: string, request: IncomingMessage, options: AdminOptions): AdminRoute | AdminAnswer {
  if (!isOurs(request.headers.host ?? '', options.hosts)) {
    return refused(
      421,
      'the admin listener answers to localhost, bare addresses and the names in `admin.hosts`',
    );
  }
  const named = ADMIN_ROUTES.filter((route) => route.path.test(path));
  if (named.length === 0) return refused(404, `no such resource; there is ${KNOWN.join(', ')}`);
  const method = request.method === 'HEAD' ? 'GET' : request.method;
  const route = named.find((each) => each.method === method);
  if (route === undefined) return refused(405, `use ${named.map((each) => each.method).join(' or ')}`);
  return (route.method === 'GET' ? undefined : tokenProblem(request.headers.authorization, options)) ?? route;
}

/** `host` as in the Host header, with or without a port. */
export function isOurs(host: string, names: readonly string[]): boolean {
  const name = host.replace(/:\d{1,5}$/, '').toLowerCase();
  if (name === 'localhost' || isIP(name) === 4) return true;
  if (name.startsWith('[') && name.endsWith(']')) return isIP(name.slice(1, -1)) === 6;
  return names.some((each) => each.toLowerCase() === name);
}

function tokenProblem(authorization: string | undefined, options: AdminOptions): AdminAnswer | undefined {
  if (options.token === undefined || options.token === '') {
    const { message, remedy } = new Fault('ADMIN_TOKEN_MISSING', { env: options.tokenEnv });
    return refused(403, `${message}: ${remedy}`);
  }
  const given = /^Bearer +(.+)$/i.exec(authorization ?? '')?.[1] ?? '';
  // Digests are of one length, so the comparison tells nothing about the token, not even its length.
  const digest = (text: string): Buffer => createHash('sha256').update(text).digest();
  return timingSafeEqual(digest(given), digest(options.token))
    ? undefined
    : refused(401, 'a Bearer token is needed to change anything');
}

/** Undefined where it is too large; the rest is thrown away. */
async function bodyOf(request: IncomingMessage): Promise<string | undefined> {
  const parts: Buffer[] = [];
  let bytes = 0;
  for await (const part of request as AsyncIterable<Buffer>) {
    bytes += part.length;
    if (bytes <= BODY_BYTES_MAX) parts.push(part);
    else parts.length = 0;
  }
  return bytes > BODY_BYTES_MAX ? undefined : Buffer.concat(parts).toString('utf8');
}

function parsed(text: string): unknown {
  if (text.trim() === '') return undefined;
  try {
    return JSON.parse(text);
  } catch (error) {
    return error instanceof Error ? error : new Error(String(error));
  }
}

function send(response: ServerResponse, { status, type, body }: AdminAnswer): void {
  if (response.headersSent || response.destroyed) return void response.destroy();
  const text = type === 'json' ? JSON.stringify(body) : String(body);
  response.writeHead(status, {
    'Content-Type': type === 'json' ? 'application/json' : 'text/plain; version=0.0.4; charset=utf-8',
    'Content-Length': Buffer.byteLength(text),
    'Cache-Control': 'no-store',
    'X-Content-Type-Options': 'nosniff',
    ...(status === 401 ? { 'WWW-Authenticate': 'Bearer' } : {}),
    // The rest of what was sent is not waited for.
    ...(status >= 400 ? { Connection: 'close' } : {}),
  });
  response.end(text);
}
