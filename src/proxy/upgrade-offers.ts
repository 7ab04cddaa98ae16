/**
 * Which Upgrade offers count: a WebSocket handshake does; any other (`h2c`, as some clients send with every
 * first request) is declined by serving the request as ordinary HTTP/1.1 (RFC 9110 section 7.8).
 */
import type { IncomingMessage } from 'node:http';
import type { Socket } from 'node:net';

type Incoming = IncomingMessage & { upgrade?: boolean };
type Parser = { onIncoming?: (request: Incoming, keepAlive: boolean) => number | undefined };

/** For a connection that the HTTP server has just taken over: asks before the parser gives up on HTTP. */
export function declineOtherUpgrades(socket: Socket): void {
  const parser = (socket as Socket & { parser?: Parser | null }).parser;
  const take = parser?.onIncoming;
  if (parser === undefined || parser === null || take === undefined) return;
  parser.onIncoming = (request, keepAlive) => {
    if (request.upgrade === true && request.method !== 'CONNECT' && !isWebSocket(request))
      request.upgrade = false;
    return take(request, keepAlive);
  };
}

function isWebSocket({ headers, method }: IncomingMessage): boolean {
  return method === 'GET' && headers.upgrade?.trim().toLowerCase() === 'websocket';
}
