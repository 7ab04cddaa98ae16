/** The life of a request on one screen: facts → head → body → answer or origin → event. */
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import { Readable } from 'node:stream';
import type { Decision } from '../core/decision.js';
import type { DecisionEvent } from '../core/event.js';
import type { RequestFacts } from '../core/request.js';
import { answerTo, refuse } from './answer.js';
import { readBody, type BodyOutcome, type BodySink } from './body.js';
import { CROWDING, type Client, type Clients, type GateCounts } from './clients.js';
import {
  answered,
  eventOf,
  framingEvent,
  openExchange,
  type EventIdentity,
  type Exchange,
  type Snapshot,
} from './exchange.js';
import { buildFacts, type FramingProblem } from './facts.js';
import { forward, type ForwardBody, type ForwardHandle } from './forward.js';
import { createHolding, type HeldBytes, type Holding } from './holding.js';
import { takesNothing } from './slow-readers.js';
import { noPlace, type WaitingRoom } from './waiting-room.js';

export type HandleDeps = Readonly<{
  current: () => Snapshot;
  nextRequestId: () => string;
  nowMs: () => number;
  who: EventIdentity;
  held: HeldBytes;
  /** What each address has under way. */
  clients: Clients;
  inFlight: { now: number };
  counts: GateCounts;
  /** Whether a connection was cut since its client took nothing. */
  wasCut: (socket: Socket) => boolean;
  /** Where delayed requests wait. */
  room: WaitingRoom;
  /** True while the worker drains: answers close their connection. */
  draining: () => boolean;
  /** After the answer is out. */
  emit: (event: DecisionEvent) => void;
  onFault: (error: unknown) => void;
}>;

/** Where a connection came from, beside its socket. */
export type Via = Readonly<{
  scheme: 'http' | 'https';
  proxied: string | undefined;
  /** The name the client asked for in its TLS handshake. */
  serverName: string | undefined;
}>;

type Life = Readonly<{
  deps: HandleDeps;
  request: IncomingMessage;
  response: ServerResponse;
  exchange: Exchange;
  facts: RequestFacts;
  via: Via;
  expectContinue: boolean;
  client: Client;
  holding: Holding;
}>;

export function handle(
  deps: HandleDeps,
  pair: Readonly<{ request: IncomingMessage; response: ServerResponse; expectContinue: boolean }>,
  via: Via,
): void {
  const { request, response, expectContinue } = pair;
  const snapshot = deps.current();
  const exchange = openExchange(snapshot);
  const facts = factsOf(deps, request, { snapshot, via });
  if ('problem' in facts) return refuseFraming(deps, { request, response, exchange }, facts);
  const client = deps.clients.enter(facts.client.key, 'requests');
  const holding = createHolding(deps.held, client, deps.clients);
  const life: Life = { deps, request, response, exchange, facts, via, expectContinue, client, holding };
  deps.inFlight.now++;
  response.on('close', () => conclude(life));
  if (response.socket === null) closeWith(request.socket, response);
  if (deps.draining()) response.shouldKeepAlive = false;
  exchange.run = snapshot.pipeline.open(facts);
  const decision = snapshot.pipeline.head(exchange.run);
  if (!(decision instanceof Promise)) return afterHead(life, decision);
  decision.then((late) => afterHead(life, late)).catch((error: unknown) => failed(life, error));
}

const queued = new WeakMap<Socket, Set<ServerResponse>>();

/** A pipelined answer waits for those before it; until then Node does not tell it that the client left. */
function closeWith(socket: Socket, response: ServerResponse): void {
  let waiting = queued.get(socket);
  if (waiting === undefined) {
    const all = (waiting = new Set<ServerResponse>());
    queued.set(socket, all);
    socket.once('close', () => {
      for (const one of all) {
        if (one.destroyed) continue;
        one.destroy();
        one.emit('close');
      }
    });
  }
  waiting.add(response);
  response.once('close', () => waiting.delete(response));
}

export function factsOf(
  deps: Pick<HandleDeps, 'nextRequestId' | 'nowMs'>,
  request: IncomingMessage,
  from: Readonly<{ snapshot: Snapshot; via: Via }>,
): RequestFacts | FramingProblem {
  return buildFacts(
    {
      requestId: deps.nextRequestId(),
      receivedAtMs: deps.nowMs(),
      method: request.method ?? 'GET',
      target: request.url ?? '/',
      httpVersion: request.httpVersion,
      rawHeaders: request.rawHeaders,
      peer: request.socket.remoteAddress ?? '0.0.0.0',
      proxied: from.via.proxied,
      scheme: from.via.scheme,
      serverName: from.via.serverName,
    },
    from.snapshot.settings,
  );
}

function afterHead(life: Life, decision: Decision): void {
  const { response, facts } = life;
  if (response.destroyed) return;
  if (decision.status > 0 && !bodyMayTurn(life, decision)) return refused(life, decision);
  if (isCrowding(life)) return refused(life, CROWDING);
  // Whoever has to wait does so before the body is read: nothing is held for them meanwhile.
  afterWait(life, decision, () => {
    if (facts.hasBody) bodyOf(life);
    else toOrigin(life, { kind: 'none' });
  });
}

/** More at once than one address may have; those on the allowlist may. */
function isCrowding({ client, exchange, deps }: Life): boolean {
  if (client.requests <= exchange.snapshot.config.caps.perAddress) return false;
  if (exchange.run!.found[0]!.some(({ kind }) => kind === 'allow')) return false;
  deps.counts.addressRefused++;
  return true;
}

function bodyOf(life: Life): void {
  const { exchange, facts } = life;
  if (life.expectContinue) life.response.writeContinue();
  const { pipeline, config, rules } = exchange.snapshot;
  const reading = readBody(
    life.request,
    {
      run: exchange.run!,
      inspect: (watch) => rules.openBody(facts, watch),
      settle: (outcome) => afterBody(life, outcome),
    },
    { pipeline, config, holding: life.holding, onBytes: (count) => void (exchange.bytesIn += count) },
  );
  life.response.once('close', reading.abandon);
}

/** Over a limit, with a small body still unread: only the body tells whether this is 429 or 403. */
function bodyMayTurn({ facts, exchange }: Life, decision: Decision): boolean {
  if (decision.action !== 'limit' || !facts.hasBody) return false;
  return (facts.contentLength ?? Infinity) <= exchange.snapshot.config.body.judgedWhole;
}

function afterBody(life: Life, outcome: BodyOutcome): void {
  const { exchange } = life;
  switch (outcome.kind) {
    case 'refuse':
      return refused(life, outcome.decision);
    case 'gone':
      if (outcome.status === 0) return clientLeft(life);
      return refused(life, {
        action: 'block',
        status: 408,
        reason: 'the body did not arrive in time',
        ruleIds: [],
      });
    case 'whole':
      exchange.bodyInspection = 'whole';
      return afterWait(life, exchange.run!.decision!, () => {
        toOrigin(life, { kind: 'whole', bytes: outcome.body });
      });
    case 'stream':
      exchange.bodyInspection = 'streamed';
      return afterWait(life, exchange.run!.decision!, () => stream(life, outcome));
  }
}

/** What the body adds to a wait is waited for after it; the part that is over is not waited for again. */
function afterWait(life: Life, decision: Decision, go: () => void): void {
  const { exchange, response, deps } = life;
  const ms = (decision.status > 0 ? 0 : (decision.delayMs ?? 0)) - exchange.delayedMs;
  if (ms <= 0) return go();
  const startedMs = performance.now();
  const max = exchange.snapshot.config.caps.delayed;
  const resume = (): void => {
    exchange.delayedMs += Math.ceil(performance.now() - startedMs);
    go();
  };
  if (!deps.room.enter({ ms, max }, response, resume)) refused(life, noPlace(ms, decision.limit));
}

function toOrigin(life: Life, body: ForwardBody): ForwardHandle | undefined {
  const { exchange, response, request } = life;
  if (response.destroyed) return undefined;
  if (exchange.run!.facts.target === '*') return void answerForAll(life);
  return forward(exchange, response, {
    body,
    hooks: {
      proto: protoOf(life),
      requestComplete: () => request.complete,
      queueTimedOut: () => void life.deps.counts.queueTimeouts++,
      fail: (status, error) => refused(life, { action: 'error', status, reason: error, ruleIds: [] }),
    },
  });
}

/** `OPTIONS *` asks about the server itself (RFC 9110 section 9.3.7), and that is the gate. */
function answerForAll({ exchange, response }: Life): void {
  exchange.status = 204;
  response.writeHead(204, ['Allow', 'GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS']);
  response.end();
}

function stream(life: Life, outcome: Extract<BodyOutcome, { kind: 'stream' }>): void {
  let resume: (() => void) | undefined;
  const source = new Readable({ read: () => resume?.(), highWaterMark: 256 * 1024 });
  source.on('error', () => undefined);
  for (const chunk of outcome.held) source.push(chunk);
  const handle = toOrigin(life, { kind: 'stream', source, contentLength: life.facts.contentLength });
  const sink: BodySink = {
    push: (chunk) => source.destroyed || source.push(chunk),
    end: () => void source.push(null),
    refuse: (decision) => {
      handle?.cancel();
      source.destroy();
      refused(life, decision);
    },
    gone: () => {
      handle?.cancel();
      source.destroy();
      clientLeft(life);
    },
    onDrain: (act) => void (resume = act),
  };
  outcome.follow(sink);
}

function refused(life: Life, decision: Decision): void {
  const { exchange, request, response, facts, deps } = life;
  const to = {
    ...answerTo(facts.requestId, facts.method, (name) => facts.headers.get(name)),
    rateLimitFields: exchange.snapshot.rateLimitFields !== 'off',
  };
  const close = decision.status === 400 || decision.status === 408 || deps.draining();
  exchange.status = refuse({ request, response, close }, decision, to);
  if (exchange.run !== undefined && decision.action === 'block') exchange.snapshot.onRefused(exchange.run);
}

function refuseFraming(
  deps: HandleDeps,
  pair: Readonly<{ request: IncomingMessage; response: ServerResponse; exchange: Exchange }>,
  problem: FramingProblem,
): void {
  const { request, response } = pair;
  const requestId = deps.nextRequestId();
  const { status, problem: reason } = problem;
  const decision: Decision = { action: 'block', status, reason, ruleIds: [] };
  const to = answerTo(
    requestId,
    request.method ?? 'GET',
    (name) => request.headers[name] as string | undefined,
  );
  refuse({ request, response, close: true }, decision, to);
  const seen = {
    requestId,
    ip: request.socket.remoteAddress ?? '',
    method: request.method ?? '',
    target: request.url ?? '',
    host: request.headers.host ?? '',
    nowMs: deps.nowMs(),
  };
  deps.emit(framingEvent(problem, seen, deps.who));
}

/** X-Forwarded-Proto of a trusted proxy counts, else the listener's own scheme. */
export function protoOf({ facts, exchange, via }: Pick<Life, 'facts' | 'exchange' | 'via'>): string {
  const said = facts.headers.get('x-forwarded-proto');
  const trusted = said !== undefined && exchange.snapshot.settings.trusted.has(facts.client.peer);
  return trusted && /^https?$/i.test(said) ? said.toLowerCase() : via.scheme;
}

function clientLeft(life: Life): void {
  life.exchange.clientAborted = true;
  life.response.destroy();
}

function failed(life: Life, error: unknown): void {
  life.deps.onFault(error);
  refused(life, {
    action: 'error',
    status: 503,
    reason: 'the gate failed to judge this request',
    ruleIds: [],
  });
}

function conclude({ deps, exchange, response, request, client, holding }: Life): void {
  if (exchange.done) return;
  exchange.onClose?.();
  exchange.done = true;
  deps.inFlight.now--;
  holding.release();
  deps.clients.leave(client, 'requests');
  answered(exchange, 0);
  if (!response.writableFinished && exchange.error === undefined) exchange.clientAborted = true;
  const { config } = exchange.snapshot;
  if (exchange.clientAborted && deps.wasCut(request.socket)) exchange.error = takesNothing(config);
  const event = eventOf(exchange, deps.who);
  if (event !== undefined) deps.emit(event);
}
