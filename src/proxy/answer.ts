/**
 * How the gate answers by itself, over a response object or a bare socket. While a request body is still on
 * its way the answer goes out at once and the rest is read and thrown away for a bounded time, so that the
 * client can read it instead of a reset (RFC 9112 section 9.6); then the connection closes.
 */
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Duplex } from 'node:stream';
import type { Decision } from '../core/decision.js';
import { renderRefusal } from '../ladder/respond.js';

export type AnswerTo = Readonly<{
  requestId: string;
  method: string;
  accept: string;
  secFetchMode: string;
  contentType: string;
  rateLimitFields?: boolean;
}>;

const LINGER_MS = 2_000;
const LINGER_BYTES = 1024 * 1024;

export function answerTo(
  requestId: string,
  method: string,
  header: (name: string) => string | undefined,
): AnswerTo {
  return {
    requestId,
    method,
    accept: header('accept') ?? '',
    secFetchMode: header('sec-fetch-mode') ?? '',
    contentType: header('content-type') ?? '',
  };
}

export function refuse(
  exchange: Readonly<{ request: IncomingMessage; response: ServerResponse; close: boolean }>,
  decision: Decision,
  to: AnswerTo,
): number {
  const { request, response } = exchange;
  if (response.headersSent || response.destroyed) {
    response.destroy();
    return 0;
  }
  const rendered = renderRefusal(decision, to);
  const headers = [...rendered.headers];
  const unread = !request.complete;
  if (unread || exchange.close) {
    headers.push('Connection', 'close');
    response.shouldKeepAlive = false;
  }
  response.writeHead(rendered.status, headers);
  if (!unread) {
    response.end(to.method === 'HEAD' ? undefined : rendered.body);
    return rendered.status;
  }
  response.write(rendered.body);
  linger(request, response);
  return rendered.status;
}

function linger(request: IncomingMessage, response: ServerResponse): void {
  let bytes = 0;
  const finish = (): void => {
    clearTimeout(timer);
    response.end();
    request.destroy();
  };
  const timer = setTimeout(finish, LINGER_MS);
  timer.unref();
  request.on('data', (chunk: Buffer) => {
    bytes += chunk.length;
    if (bytes > LINGER_BYTES) finish();
  });
  request.once('end', () => {
    clearTimeout(timer);
    response.end();
  });
  request.once('close', () => clearTimeout(timer));
  request.resume();
}

/** For sockets without a response object: parse errors and upgrades. Always closes. */
export function refuseOnSocket(socket: Duplex, decision: Decision, to: AnswerTo): void {
  if (!socket.writable) {
    socket.destroy();
    return;
  }
  const rendered = renderRefusal(decision, to);
  const lines = [`HTTP/1.1 ${rendered.status} ${REASONS[rendered.status] ?? 'Refused'}`];
  for (let index = 0; index < rendered.headers.length; index += 2) {
    lines.push(`${rendered.headers[index]}: ${rendered.headers[index + 1]}`);
  }
  socket.end(`${lines.join('\r\n')}\r\nConnection: close\r\n\r\n${rendered.body}`, () => socket.destroy());
  setTimeout(() => socket.destroy(), LINGER_MS).unref();
}

const REASONS: Readonly<Record<number, string>> = {
  400: 'Bad Request',
  403: 'Forbidden',
  408: 'Request Timeout',
  413: 'Content Too Large',
  415: 'Unsupported Media Type',
  421: 'Misdirected Request',
  429: 'Too Many Requests',
  501: 'Not Implemented',
  502: 'Bad Gateway',
  503: 'Service Unavailable',
  504: 'Gateway Timeout',
  505: 'HTTP Version Not Supported',
};
