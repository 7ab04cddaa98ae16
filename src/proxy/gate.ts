/**
 * The listeners of one worker: opens them, hands every request on with the snapshot of its time, drains,
 * closes.
 */
import http, { type IncomingMessage, type ServerResponse } from 'node:http';
import https from 'node:https';
import net, { type Socket } from 'node:net';
import type { TLSSocket } from 'node:tls';
import type { Duplex } from 'node:stream';
import type { Decision } from '../core/decision.js';
import { Fault } from '../core/errors.js';
import type { DecisionEvent } from '../core/event.js';
import { answerTo, refuseOnSocket } from './answer.js';
import { createClients } from './clients.js';
import type { ProxyConfig } from './config.js';
import type { Credentials } from './credentials.js';
import { framingEvent, type EventIdentity, type Snapshot } from './exchange.js';
import type { FramingProblem } from './facts.js';
import { handle, type HandleDeps, type Via } from './handle.js';
import { readProxyHeader } from './proxy-protocol.js';
import { createRequestIds } from './request-id.js';
import { cutWhenSilent } from './half-closed.js';
import { createHeldBytes } from './holding.js';
import { createSlowReaders } from './slow-readers.js';
import { declineOtherUpgrades } from './upgrade-offers.js';
import { createUpgradeHandler } from './upgrade.js';
import { createWaitingRoom } from './waiting-room.js';

export type GateDeps = Readonly<{
  snapshot: Snapshot;
  /** For each listener in turn; undefined for plain HTTP. */
  credentials: readonly (Credentials | undefined)[];
  who: EventIdentity;
  nowMs: () => number;
  emit: (event: DecisionEvent) => void;
  onFault: (error: unknown) => void;
}>;

export type GateStats = Readonly<{
  inFlight: number;
  connections: number;
  heldBytes: number;
  heldRefused: number;
  /** Requests cut off since one address had too many body bytes held, or too much under way. */
  heldRefusedAddress: number;
  addressRefused: number;
  /** Requests that waited too long for one of an origin's connections. */
  queueTimeouts: number;
  /** Connections cut since the client took nothing of what was written. */
  slowReadersCut: number;
  /** Requests made to wait now, and those refused since too many did. */
  delayed: number;
  delayRefused: number;
}>;

export type Gate = {
  /** Opens every listener; answers their URLs. Throws LISTEN_FAILED. */
  listen(): Promise<string[]>;
  /**
   * From the next request on, certificates from the next connection on. Requests under way keep what they
   * began with.
   */
  swap(snapshot: Snapshot, credentials: readonly (Credentials | undefined)[]): void;
  /**
   * Stops accepting, waits for requests in flight up to `ms`, then cuts the rest. Answers how many were cut.
   */
  drain(ms: number): Promise<number>;
  stats(): GateStats;
};

type Listener = ProxyConfig['listen'][number];
type Front = {
  server: http.Server | https.Server;
  outer: net.Server;
  listener: Listener;
  credentials: Credentials | undefined;
};

export function createGate(deps: GateDeps): Gate {
  let snapshot = deps.snapshot;
  let draining = false;
  const held = createHeldBytes();
  const clients = createClients();
  const counts = { addressRefused: 0, queueTimeouts: 0 };
  const slowReaders = createSlowReaders(() => snapshot.config.timeouts.clientWrite);
  const inFlight = { now: 0 };
  const room = createWaitingRoom();
  const handleDeps: HandleDeps = {
    current: () => snapshot,
    nextRequestId: createRequestIds(),
    nowMs: deps.nowMs,
    who: deps.who,
    held,
    clients,
    inFlight,
    counts,
    wasCut: slowReaders.wasCut,
    room,
    draining: () => draining,
    emit: deps.emit,
    onFault: deps.onFault,
  };
  const fronts = snapshot.config.listen.map((listener, index) =>
    openFront(listener, handleDeps, deps.credentials[index]),
  );
  for (const { server } of fronts) server.on('connection', slowReaders.watch);
  return {
    listen: () => Promise.all(fronts.map(listenOn)),
    swap(next, credentials) {
      snapshot = next;
      for (const [index, front] of fronts.entries()) {
        applyLimits(front, next.config);
        applyCredentials(front, credentials[index]);
      }
    },
    async drain(ms) {
      draining = true;
      room.open();
      for (const { outer, server } of fronts) {
        outer.close();
        server.closeIdleConnections();
      }
      const until = deps.nowMs() + ms;
      while (inFlight.now > 0 && deps.nowMs() < until) {
        await new Promise((resolve) => setTimeout(resolve, 20));
        for (const { server } of fronts) server.closeIdleConnections();
      }
      const cut = inFlight.now;
      for (const { server } of fronts) server.closeAllConnections();
      return cut;
    },
    stats: () => ({
      inFlight: inFlight.now,
      connections: fronts.reduce((sum, front) => sum + connectionsOf(front.outer), 0),
      heldBytes: held.small + held.large,
      heldRefused: held.refused,
      heldRefusedAddress: held.refusedAddress,
      addressRefused: counts.addressRefused,
      queueTimeouts: counts.queueTimeouts,
      slowReadersCut: slowReaders.cut(),
      delayed: room.stats().waiting,
      delayRefused: room.stats().refused,
    }),
  };
}

function connectionsOf(server: net.Server): number {
  // Synchronous where `getConnections` is not; the property is documented as deprecated, not gone.
  return (server as unknown as { _connections?: number })._connections ?? 0;
}

function openFront(listener: Listener, deps: HandleDeps, credentials: Credentials | undefined): Front {
  const { config } = deps.current();
  const options = {
    maxHeaderSize: config.caps.headerBytes,
    insecureHTTPParser: false,
    requireHostHeader: false,
    keepAlive: true,
    noDelay: true,
    connectionsCheckingInterval: 2_000,
  };
  const server =
    credentials === undefined
      ? http.createServer(options)
      : https.createServer({ ...options, ...credentials, allowHalfOpen: true });
  const proxied = new WeakMap<Socket, string>();
  const viaOf = credentials === undefined ? plainVia(proxied) : tlsVia(proxied);
  const upgrade = createUpgradeHandler();
  const onRequest = (request: IncomingMessage, response: ServerResponse, expectContinue: boolean): void => {
    handle(deps, { request, response, expectContinue }, viaOf(request.socket));
  };
  server.on('request', (request: IncomingMessage, response: ServerResponse) =>
    onRequest(request, response, false),
  );
  server.on('checkContinue', (request: IncomingMessage, response: ServerResponse) =>
    onRequest(request, response, true),
  );
  server.on('upgrade', (request: IncomingMessage, socket: Duplex, head: Buffer) => {
    upgrade(deps, { request, socket, head }, viaOf(request.socket));
  });
  server.on('connect', (request: IncomingMessage, socket: Duplex) => {
    refuseUnparsed(deps, socket as Socket, {
      id: 'CONNECT',
      problem: 'CONNECT is not for this gate',
      status: 400,
    });
    request.resume();
  });
  server.on('clientError', (error: NodeJS.ErrnoException, socket: Duplex) =>
    onClientError(deps, error, socket as Socket),
  );
  (server as { httpAllowHalfOpen?: boolean }).httpAllowHalfOpen = true;
  server.on('connection', dropIfGone);
  server.on(credentials === undefined ? 'connection' : 'secureConnection', (socket: Socket) =>
    cutWhenSilent(socket, () => deps.current().config.timeouts.halfClosed),
  );
  server.on(credentials === undefined ? 'connection' : 'secureConnection', declineOtherUpgrades);
  const outer = listener.proxyProtocol ? withProxyProtocol(server, proxied, deps) : server;
  const front: Front = { server, outer, listener, credentials };
  applyLimits(front, config);
  return front;
}

type ViaOf = (socket: Socket) => Via;

function plainVia(proxied: WeakMap<Socket, string>): ViaOf {
  return (socket) => ({ scheme: 'http', proxied: proxied.get(socket), serverName: undefined });
}

/** A PROXY header was read off the socket that the TLS one was built upon. */
function tlsVia(proxied: WeakMap<Socket, string>): ViaOf {
  return (socket) => {
    const { servername, _parent: below } = socket as TLSSocket & { servername?: unknown; _parent?: Socket };
    return {
      scheme: 'https',
      proxied: below === undefined ? undefined : proxied.get(below),
      serverName: typeof servername === 'string' ? servername : undefined,
    };
  };
}

type Handle = Readonly<{ getpeername?: (out: object) => number }>;

/**
 * A connection reset before it was read shows its bytes and then a plain end, as a half-closed client's would
 * be; only that the kernel knows no peer any more tells them apart.
 */
function dropIfGone(socket: Socket): void {
  const ended = (): void => {
    const handle = (socket as unknown as { _handle?: Handle | null })._handle;
    if (typeof handle?.getpeername === 'function' && handle.getpeername({}) !== 0) socket.destroy();
  };
  if (socket.remoteAddress === undefined) socket.destroy();
  else socket.once('end', ended);
}

function applyLimits({ server, outer }: Front, config: ProxyConfig): void {
  server.maxHeadersCount = config.caps.headers + 1;
  server.headersTimeout = config.timeouts.headers;
  server.requestTimeout = config.timeouts.request;
  server.keepAliveTimeout = config.timeouts.keepAlive;
  outer.maxConnections = config.caps.connections;
}

/** Only a certificate that has changed; what is open goes on with the one it began with. */
function applyCredentials(front: Front, next: Credentials | undefined): void {
  const { server, credentials: now } = front;
  if (next === undefined || !(server instanceof https.Server)) return;
  if (now?.cert === next.cert && now.key === next.key) return;
  server.setSecureContext(next);
  front.credentials = next;
}

function withProxyProtocol(
  server: http.Server,
  proxied: WeakMap<Socket, string>,
  deps: Pick<HandleDeps, 'current'>,
): net.Server {
  return net.createServer({ allowHalfOpen: true, noDelay: true }, (socket) => {
    const { config, settings } = deps.current();
    if (!settings.trusted.has(socket.remoteAddress ?? '')) return void socket.destroy();
    readProxyHeader(socket, config.timeouts.headers, (address) => {
      if (address !== undefined) proxied.set(socket, address);
      server.emit('connection', socket);
    });
  });
}

const PARSER_PROBLEM: Readonly<Record<string, string>> = {
  HPE_HEADER_OVERFLOW: 'the head is larger than `caps.headerBytes`',
  ERR_HTTP_REQUEST_TIMEOUT: 'the request did not arrive in time',
};

function onClientError(deps: HandleDeps, error: NodeJS.ErrnoException, socket: Socket): void {
  if (error.code === 'ECONNRESET' || !socket.writable) return void socket.destroy();
  const code = error.code ?? 'UNKNOWN';
  const answering = (socket as unknown as { _httpMessage?: ServerResponse | null })._httpMessage ?? undefined;
  // Part of an answer is out, or an earlier request is still being answered: another status would lie.
  if (answering !== undefined && (answering.headersSent || answering.req.complete))
    return socket.destroySoon();
  const problem = PARSER_PROBLEM[code] ?? `not HTTP as RFC 9112 has it (${code})`;
  refuseUnparsed(deps, socket, { id: code.replace(/[^A-Z0-9]+/g, '-'), problem, status: 400 });
}

function refuseUnparsed(deps: HandleDeps, socket: Socket, problem: FramingProblem): void {
  const requestId = deps.nextRequestId();
  const decision: Decision = {
    action: 'block',
    status: problem.status,
    reason: problem.problem,
    ruleIds: [],
  };
  const ip = socket.remoteAddress ?? '';
  refuseOnSocket(
    socket,
    decision,
    answerTo(requestId, 'GET', () => undefined),
  );
  deps.emit(
    framingEvent(problem, { requestId, ip, method: '', target: '', host: '', nowMs: deps.nowMs() }, deps.who),
  );
}

async function listenOn({ outer, listener }: Front): Promise<string> {
  const { host, port } = splitAddress(listener.address);
  return new Promise((resolve, reject) => {
    const onError = (error: Error): void =>
      reject(new Fault('LISTEN_FAILED', { address: listener.address, why: error.message }, error));
    outer.once('error', onError);
    outer.listen({ host, port, backlog: 1024 }, () => {
      outer.off('error', onError);
      outer.on('error', () => undefined);
      const bound = outer.address() as net.AddressInfo;
      const literal = bound.family === 'IPv6' ? `[${bound.address}]` : bound.address;
      resolve(`${listener.tls === undefined ? 'http' : 'https'}://${literal}:${bound.port}`);
    });
  });
}

/** `127.0.0.1:8080`, `[::]:8080`, `:8080`, `8080`. */
export function splitAddress(text: string): { host: string; port: number } {
  const found = /^(?:(?:\[([0-9a-fA-F:.]+)\]|([^:[\]]*)):)?(\d{1,5})$/.exec(text);
  if (found === null) throw new Fault('LISTEN_FAILED', { address: text, why: 'not an address and a port' });
  return { host: found[1] ?? (found[2] || '0.0.0.0'), port: Number(found[3]) };
}
