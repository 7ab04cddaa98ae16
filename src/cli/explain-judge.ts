/**
 * Judges one request in this process with everything the gate judges with: the same engines, facts, body
 * reader and event. No origin is asked. Counters are this process's own, so that nothing is taken from
 * anybody's allowance.
 */
import { IncomingMessage } from 'node:http';
import { Socket } from 'node:net';
import type { DecisionEvent } from '../core/event.js';
import { readBody, type BodyOutcome } from '../proxy/body.js';
import { createClients } from '../proxy/clients.js';
import { createHeldBytes, createHolding, type Holding } from '../proxy/holding.js';
import {
  answered,
  eventOf,
  framingEvent,
  openExchange,
  type Exchange,
  type Snapshot,
} from '../proxy/exchange.js';
import { buildFacts } from '../proxy/facts.js';
import type { ExplainRequest } from './explain-request.js';

export type Judged = Readonly<{ event: DecisionEvent; wouldChange?: string }>;

export type Circumstances = Readonly<{
  /** Address of the socket's other end. */
  client: string;
  nowMs: number;
  requestId: string;
  /** What the origin is taken to answer where the request passes; for limits that count answers. */
  answer?: number;
}>;

const WHO = { node: 'explain', worker: 0 };

/** Takes the request through all stages once. */
export async function judgeOnce(
  request: ExplainRequest,
  snapshot: Snapshot,
  around: Circumstances,
): Promise<Judged> {
  const { method, target, httpVersion, rawHeaders, scheme } = request;
  const { client, nowMs, requestId, answer = 200 } = around;
  const facts = buildFacts(
    {
      requestId,
      receivedAtMs: nowMs,
      method,
      target,
      httpVersion,
      rawHeaders,
      peer: client,
      proxied: undefined,
      scheme,
    },
    snapshot.settings,
  );
  if ('problem' in facts) {
    return { event: framingEvent(facts, { requestId, ip: client, method, target, host: '', nowMs }, WHO) };
  }
  const exchange = openExchange(snapshot);
  const run = snapshot.pipeline.open(facts);
  exchange.run = run;
  let decision = await snapshot.pipeline.head(run);
  const small = (facts.contentLength ?? Infinity) <= snapshot.config.body.judgedWhole;
  if (facts.hasBody && (decision.status === 0 || (decision.action === 'limit' && small))) {
    const outcome = await judgeBody(request.body, exchange, snapshot);
    exchange.bodyInspection = outcome === 'stream' ? 'streamed' : 'whole';
    decision = run.decision ?? decision;
  }
  exchange.status = decision.status;
  answered(exchange, decision.status === 0 ? answer : 0);
  exchange.bytesIn = request.body.length;
  const event = eventOf(exchange, WHO);
  if (event === undefined) throw new Error('a judged request has an event');
  return decision.wouldChange === undefined ? { event } : { event, wouldChange: decision.wouldChange };
}

/** Hands the body to the gate's own reader, as if it had just arrived. */
function judgeBody(body: Buffer, exchange: Exchange, snapshot: Snapshot): Promise<BodyOutcome['kind']> {
  const run = exchange.run!;
  const message = new IncomingMessage(new Socket());
  return new Promise((resolve) => {
    const settle = (outcome: BodyOutcome): void => {
      if (outcome.kind !== 'stream') return resolve(outcome.kind);
      const done = () => resolve('stream');
      const resume = () => undefined;
      outcome.follow({ push: () => true, end: done, refuse: done, gone: done, onDrain: resume });
    };
    const { pipeline, config } = snapshot;
    readBody(
      message,
      { run, inspect: (watch) => snapshot.rules.openBody(run.facts, watch), settle },
      { pipeline, config, holding: holdingOfOne(), onBytes: nothing },
    );
    for (let at = 0; at < body.length; at += 65_536) message.push(body.subarray(at, at + 65_536));
    message.complete = true;
    message.push(null);
  });
}

function holdingOfOne(): Holding {
  const clients = createClients();
  return createHolding(createHeldBytes(), clients.enter('', 'requests'), clients);
}

function nothing(): void {
  // The size is known from the start; nobody waits for the count.
}
