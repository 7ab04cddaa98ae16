/**
 * WebSocket handshakes pass the pipeline like any request, then tunnel through http-proxy. An origin that
 * answers with a normal status has it relayed; a silent one is cut at `timeouts.upgrade`; errors of either
 * side end both.
 */
import type { ClientRequest, IncomingMessage } from 'node:http';
import type { Duplex } from 'node:stream';
import httpProxy from 'http-proxy';
import type { Decision } from '../core/decision.js';
import type { RequestFacts } from '../core/request.js';
import { answerTo, refuseOnSocket } from './answer.js';
import { CROWDING_TUNNELS, type Client } from './clients.js';
import { answered, eventOf, framingEvent, openExchange, type Exchange } from './exchange.js';
import { rewriteForUpgrade } from './forward-headers.js';
import { takesNothing } from './slow-readers.js';
import { noPlace } from './waiting-room.js';
import { factsOf, protoOf, type HandleDeps, type Via } from './handle.js';

type Tunnel = Readonly<{
  deps: HandleDeps;
  request: IncomingMessage;
  socket: Duplex;
  head: Buffer;
  exchange: Exchange;
  facts: RequestFacts;
  via: Via;
  client: Client;
}>;

export type UpgradeHandler = (
  deps: HandleDeps,
  pair: Readonly<{ request: IncomingMessage; socket: Duplex; head: Buffer }>,
  via: Via,
) => void;

export function createUpgradeHandler(): UpgradeHandler {
  const proxy = httpProxy.createProxyServer({});
  const tunnels = new WeakMap<IncomingMessage, Tunnel>();
  proxy.on('proxyReqWs', (toOrigin: ClientRequest, request: IncomingMessage) => {
    const tunnel = tunnels.get(request);
    if (tunnel !== undefined) watch(tunnel, toOrigin);
  });
  return (deps, { request, socket, head }, via) => {
    socket.on('error', () => socket.destroy());
    const snapshot = deps.current();
    const exchange = openExchange(snapshot);
    const facts = factsOf(deps, request, { snapshot, via });
    if ('problem' in facts) {
      const seen = {
        requestId: deps.nextRequestId(),
        ip: '',
        method: 'GET',
        target: '',
        host: '',
        nowMs: deps.nowMs(),
      };
      const decision: Decision = {
        action: 'block',
        status: facts.status,
        reason: facts.problem,
        ruleIds: [],
      };
      refuseOnSocket(
        socket,
        decision,
        answerTo(seen.requestId, 'GET', () => undefined),
      );
      return deps.emit(framingEvent(facts, seen, deps.who));
    }
    const client = deps.clients.enter(facts.client.key, 'tunnels');
    const tunnel: Tunnel = { deps, request, socket, head, exchange, facts, via, client };
    tunnels.set(request, tunnel);
    deps.inFlight.now++;
    socket.once('close', () => conclude(tunnel));
    exchange.run = snapshot.pipeline.open(facts);
    Promise.resolve(snapshot.pipeline.head(exchange.run)).then(
      (decision) => afterHead(proxy, tunnel, decision),
      (error: unknown) => {
        deps.onFault(error);
        refused(tunnel, { action: 'error', status: 503, reason: 'the gate failed to judge', ruleIds: [] });
      },
    );
  };
}

function afterHead(proxy: httpProxy, tunnel: Tunnel, decision: Decision): void {
  const { socket, exchange } = tunnel;
  if (socket.destroyed) return;
  if (decision.status > 0) return refused(tunnel, decision);
  if (isCrowding(tunnel)) return refused(tunnel, CROWDING_TUNNELS);
  const ms = decision.delayMs ?? 0;
  if (ms === 0) return connect(proxy, tunnel);
  const { room } = tunnel.deps;
  const max = exchange.snapshot.config.caps.delayed;
  const startedMs = performance.now();
  const go = (): void => {
    exchange.delayedMs = Math.round(performance.now() - startedMs);
    connect(proxy, tunnel);
  };
  if (!room.enter({ ms, max }, socket, go)) refused(tunnel, noPlace(ms, decision.limit));
}

/** More at once than one address may have; those on the allowlist may. */
function isCrowding({ client, exchange, deps }: Tunnel): boolean {
  if (client.tunnels <= exchange.snapshot.config.caps.tunnelsPerAddress) return false;
  if (exchange.run!.found[0]!.some(({ kind }) => kind === 'allow')) return false;
  deps.counts.addressRefused++;
  return true;
}

function connect(proxy: httpProxy, tunnel: Tunnel): void {
  const { socket, facts, exchange, request, head } = tunnel;
  if (facts.hasBody || (facts.headers.get('upgrade') ?? '').toLowerCase() !== 'websocket') {
    return refused(tunnel, {
      action: 'block',
      status: 501,
      reason: 'only WebSocket upgrades are known',
      ruleIds: [],
    });
  }
  const { upstreams, sites } = exchange.snapshot;
  const address = upstreams.pick(facts.site, []);
  if (address === undefined) {
    return refused(tunnel, {
      action: 'error',
      status: 503,
      reason: 'no address of an origin is known',
      ruleIds: [],
    });
  }
  exchange.upstream = { address: address.label, status: 0, durationUs: 0, attempts: 1 };
  rewriteForUpgrade(request.headers, facts, protoOf(tunnel));
  const passHost = sites.get(facts.site)?.passHost ?? true;
  if (!passHost) request.headers.host = address.origin.hostHeader;
  const target = `${address.origin.tls ? 'wss' : 'ws'}://${address.label}`;
  proxy.ws(
    request,
    socket,
    head,
    { target, changeOrigin: false, secure: true, xfwd: false },
    (error: Error) => {
      if (exchange.status !== 0 || socket.destroyed) return void socket.destroy();
      upstreams.failed(address);
      refused(tunnel, {
        action: 'error',
        status: 502,
        reason: `the origin broke the handshake (${error.message})`,
        ruleIds: [],
      });
    },
  );
}

/** Follows the handshake with the origin: deadline, an ordinary answer, the client leaving first. */
function watch(tunnel: Tunnel, toOrigin: ClientRequest): void {
  const { socket, exchange } = tunnel;
  const leave = (): void => void toOrigin.destroy();
  const timer = setTimeout(() => {
    refused(tunnel, {
      action: 'error',
      status: 504,
      reason: 'the origin did not answer the handshake',
      ruleIds: [],
    });
    toOrigin.destroy();
  }, exchange.snapshot.config.timeouts.upgrade);
  socket.once('close', leave);
  toOrigin.once('close', () => clearTimeout(timer));
  toOrigin.once('upgrade', (answer: IncomingMessage, originSocket: Duplex) => {
    clearTimeout(timer);
    exchange.status = 101;
    exchange.upstream!.status = answer.statusCode ?? 101;
    answered(exchange, 101);
    originSocket.once('close', () => socket.destroy());
    socket.once('close', () => originSocket.destroy());
  });
  toOrigin.once('response', (answer: IncomingMessage) => {
    clearTimeout(timer);
    socket.off('close', leave);
    exchange.status = answer.statusCode ?? 502;
    exchange.upstream!.status = exchange.status;
    answered(exchange, exchange.status);
    // Keeps http-proxy's own listener, which comes after this one, from relaying it as well: it would
    // announce a chunked body and send it unchunked. Taken back in the same emit, since Node reads the mark
    // after it.
    markUpgraded(answer, true);
    relay(answer, socket);
  });
  process.nextTick(() => toOrigin.once('response', (answer: IncomingMessage) => markUpgraded(answer, false)));
}

const markUpgraded = (answer: IncomingMessage, value: boolean): void => {
  (answer as { upgrade?: boolean }).upgrade = value;
};

function relay(answer: IncomingMessage, socket: Duplex): void {
  const lines = [`HTTP/1.1 ${answer.statusCode} ${answer.statusMessage ?? ''}`];
  const raw = answer.rawHeaders;
  for (let index = 0; index < raw.length; index += 2) {
    const name = raw[index]!.toLowerCase();
    if (name !== 'connection' && name !== 'transfer-encoding' && name !== 'keep-alive') {
      lines.push(`${raw[index]}: ${raw[index + 1]}`);
    }
  }
  socket.write(`${lines.join('\r\n')}\r\nConnection: close\r\n\r\n`, 'latin1');
  answer.on('error', () => socket.destroy());
  answer.pipe(socket);
  answer.once('end', () => setTimeout(() => socket.destroy(), 1_000).unref());
}

function refused(tunnel: Tunnel, decision: Decision): void {
  const { exchange, facts, socket } = tunnel;
  if (exchange.status !== 0) return void socket.destroy();
  exchange.status = decision.status;
  if (decision.action === 'error') exchange.error = decision.reason;
  if (decision.action === 'block' && exchange.run !== undefined) exchange.snapshot.onRefused(exchange.run);
  refuseOnSocket(socket, decision, {
    ...answerTo(facts.requestId, facts.method, (name) => facts.headers.get(name)),
    rateLimitFields: exchange.snapshot.rateLimitFields !== 'off',
  });
}

function conclude({ deps, exchange, request, client }: Tunnel): void {
  if (exchange.done) return;
  exchange.done = true;
  deps.inFlight.now--;
  deps.clients.leave(client, 'tunnels');
  answered(exchange, 0);
  if (exchange.status === 0) exchange.clientAborted = true;
  if (deps.wasCut(request.socket)) exchange.error = takesNothing(exchange.snapshot.config);
  const event = eventOf(exchange, deps.who);
  if (event !== undefined) deps.emit(event);
}
