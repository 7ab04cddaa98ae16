/** The life of a request on one screen: facts → head → body → answer or origin → event. */
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import { Readable } from 'node:stream';
import type { Decision } from '../core/decision.js';
import type { DecisionEvent } from '../core/event.js';
import type { RequestFacts } from '../core/request.js';
import { answerTo, refuse } from './answer.js';
import { readBody, type BodyOutcome, type BodySink, type HeldBytes } from './body.js';
import {
  eventOf,
  framingEvent,
  openExchange,
  type EventIdentity,
  type Exchange,
  type Snapshot,
} from './exchange.js';
import { buildFacts, type FramingProblem } from './facts.js';
import { forward, type ForwardBody, type ForwardHandle } from './forward.js';

export type HandleDeps = Readonly<{
  current: () => Snapshot;
  nextRequestId: () => string;
  nowMs: () => number;
  who: EventIdentity;
  held: HeldBytes;
  inFlight: { now: number };
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
  const life: Life = { deps, request, response, exchange, facts, via, expectContinue };
  deps.inFlight.now++;
  response.once('close', () => conclude(life));
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
  const { response, facts, exchange } = life;
  if (response.destroyed) return;
  if (decision.status > 0 && !bodyMayTurn(life, decision)) return refused(life, decision);
  if (!facts.hasBody) return afterJudging(life, decision, { kind: 'none' });
  if (life.expectContinue) response.writeContinue();
  const inspector = exchange.snapshot.rules.openBody(facts);
  const { pipeline, config } = exchange.snapshot;
  readBody(
    life.request,
    { run: exchange.run!, inspector, settle: (outcome) => afterBody(life, outcome) },
    { pipeline, config, held: life.deps.held, onBytes: (count) => void (exchange.bytesIn += count) },
  );
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
      return afterJudging(life, exchange.run!.decision!, { kind: 'whole', bytes: outcome.body });
    case 'stream':
      exchange.bodyInspection = 'streamed';
      return stream(life, outcome);
  }
}

function afterJudging(life: Life, decision: Decision, body: ForwardBody): void {
  const delayMs = decision.delayMs ?? 0;
  if (delayMs > 0) setTimeout(() => void toOrigin(life, body), delayMs);
  else toOrigin(life, body);
}

function toOrigin(life: Life, body: ForwardBody): ForwardHandle | undefined {
  const { exchange, response, request } = life;
  if (response.destroyed) return undefined;
  return forward(exchange, response, {
    body,
    hooks: {
      proto: protoOf(life),
      requestComplete: () => request.complete,
      fail: (status, error) => refused(life, { action: 'error', status, reason: error, ruleIds: [] }),
    },
  });
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
  const decision: Decision = {
    action: 'block',
    status: problem.status,
    reason: problem.problem,
    ruleIds: [],
  };
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

function conclude({ deps, exchange, response }: Life): void {
  if (exchange.done) return;
  exchange.done = true;
  deps.inFlight.now--;
  if (!response.writableFinished && exchange.error === undefined) exchange.clientAborted = true;
  const event = eventOf(exchange, deps.who);
  if (event !== undefined) deps.emit(event);
}
