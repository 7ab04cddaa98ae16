/**
 * To the origin and back: one undici dispatch an attempt. Retries only where nothing was sent, or where an
 * idempotent request died on a reused connection before any answer (RFC 9110 section 9.2.2). The client
 * leaving aborts the origin's side; the origin breaking off in mid-answer breaks off the client's.
 */
import type { ServerResponse } from 'node:http';
import { subscribe } from 'node:diagnostics_channel';
import type { Socket } from 'node:net';
import type { Readable } from 'node:stream';
import type { Dispatcher } from 'undici';
import { answered, limitFields, type Exchange } from './exchange.js';
import { earlyHints } from './early-hints.js';
import { requestHeaders, responseHeaders } from './forward-headers.js';
import { awaitHead } from './unasked-continue.js';
import { endTurn, type Address } from './upstream.js';

export type ForwardBody =
  | Readonly<{ kind: 'none' }>
  | Readonly<{ kind: 'whole'; bytes: Buffer }>
  | Readonly<{ kind: 'stream'; source: Readable; contentLength: number | undefined }>;

export type ForwardHooks = Readonly<{
  /** The gate answers by itself: 502, 503 or 504, and why. */
  fail: (status: 502 | 503 | 504, error: string) => void;
  proto: string;
  requestComplete: () => boolean;
  /** It waited too long for a connection; the failure follows. */
  queueTimedOut: () => void;
}>;

/** `cancel`: the body was refused late; the origin must never see it whole. */
export type ForwardHandle = Readonly<{ cancel: () => void }>;

const IDEMPOTENT = new Set(['GET', 'HEAD', 'OPTIONS', 'PUT', 'DELETE', 'TRACE']);
const ATTEMPTS_MAX = 3;
/** Nothing had been sent yet when these came up. */
const NOT_SENT = new Set([
  'ECONNREFUSED',
  'EHOSTUNREACH',
  'ENETUNREACH',
  'UND_ERR_CONNECT_TIMEOUT',
  'EADDRNOTAVAIL',
  'ENOTFOUND',
]);
const SOCKET_LOST = new Set(['UND_ERR_SOCKET', 'ECONNRESET', 'EPIPE']);
const TIMED_OUT = new Set(['UND_ERR_HEADERS_TIMEOUT', 'UND_ERR_BODY_TIMEOUT', 'UND_ERR_CONNECT_TIMEOUT']);

export function forward(
  exchange: Exchange,
  response: ServerResponse,
  job: Readonly<{ body: ForwardBody; hooks: ForwardHooks }>,
): ForwardHandle {
  const running = new Forward(exchange, response, job.body, job.hooks);
  running.attempt();
  return { cancel: running.cancel };
}

/**
 * Whose request undici is writing at this moment. It publishes the socket right after `onConnect`, in the
 * same turn. Destroying that socket ends an exchange for good; undici's own abort would open a new connection
 * for the request that it has just given up.
 */
let writing: Forward | undefined;
subscribe('undici:client:sendHeaders', (message) => {
  writing?.onSocket((message as { socket: Socket }).socket);
  writing = undefined;
});

function expectSocket(forward: Forward): void {
  writing = forward;
}

/** The handler that undici calls is the exchange's own: one object an exchange, no closures an attempt. */
class Forward {
  private socket: Socket | undefined;
  private turnOf: Address | undefined;
  /** Leaves the queue for a connection. */
  private leaveQueue: (() => void) | undefined;
  private readonly tried: Address[] = [];
  private abort: ((error?: Error) => void) | undefined;
  private resume: (() => void) | undefined;
  private began = false;
  private ended = false;
  private clientGone = false;
  private drains = false;
  private startedMs = 0;

  constructor(
    private readonly exchange: Exchange,
    private readonly response: ServerResponse,
    private readonly body: ForwardBody,
    private readonly hooks: ForwardHooks,
  ) {
    exchange.onClose = this.onClientClose;
  }

  attempt(): void {
    const { snapshot, run } = this.exchange;
    const address = snapshot.upstreams.pick(run!.facts.site, this.tried);
    if (address === undefined) return this.giveUp(503, 'no address of an origin is known');
    const { caps, timeouts } = snapshot.config;
    const client = run!.facts.client.key;
    if (address.turns.take(client, caps)) return this.dispatch(address);
    const go = (): void => {
      clearTimeout(timer);
      this.leaveQueue = undefined;
      this.dispatch(address);
    };
    const leave = address.turns.wait(client, go, caps);
    if (leave === undefined) return this.giveUp(503, 'too many requests wait for the origin');
    const timer = setTimeout(() => {
      this.leaveQueue?.();
      this.hooks.queueTimedOut();
      this.giveUp(503, "waited too long for one of the origin's connections (`timeouts.queue`)");
    }, timeouts.queue);
    this.leaveQueue = () => {
      clearTimeout(timer);
      leave();
      this.leaveQueue = undefined;
    };
  }

  private dispatch(address: Address): void {
    const { snapshot, run } = this.exchange;
    const facts = run!.facts;
    this.turnOf = address;
    this.tried.push(address);
    this.socket = undefined;
    this.startedMs = performance.now();
    this.exchange.upstream = {
      address: address.label,
      status: 0,
      durationUs: 0,
      attempts: this.tried.length,
    };
    const passHost = snapshot.sites.get(facts.site)?.passHost ?? true;
    const host = passHost ? facts.headers.get('host') : undefined;
    const headers = requestHeaders(facts, {
      host: host ?? address.origin.hostHeader,
      proto: this.hooks.proto,
      contentLength: this.contentLength(facts.contentLength),
    });
    const options: Dispatcher.DispatchOptions = {
      path: facts.target,
      method: facts.method as Dispatcher.HttpMethod,
      headers,
      body:
        this.body.kind === 'none' ? null : this.body.kind === 'whole' ? this.body.bytes : this.body.source,
    };
    address.pool.dispatch(options, this as unknown as Dispatcher.DispatchHandler);
  }

  private contentLength(received: number | undefined): number | undefined {
    if (this.body.kind === 'whole') return this.body.bytes.length;
    return this.body.kind === 'stream' ? this.body.contentLength : received;
  }

  onConnect(abort: (error?: Error) => void): void {
    this.abort = abort;
    if (this.clientGone) abort(new Error('client left'));
    else expectSocket(this);
  }

  /** The socket that this exchange's request is being written to. */
  onSocket(socket: Socket): void {
    this.socket = socket;
    awaitHead(socket);
  }

  onData(chunk: Buffer): boolean {
    this.exchange.bytesOut += chunk.length;
    return this.response.write(chunk) || this.waitForDrain();
  }

  private waitForDrain(): false {
    if (!this.drains && this.resume !== undefined) this.response.on('drain', this.resume);
    this.drains = true;
    return false;
  }

  onUpgrade(): void {
    this.abort?.(new Error('an upgrade that was not asked for'));
  }

  private hangUp(why: string): void {
    this.leaveQueue?.();
    if (this.socket !== undefined) this.socket.destroy(new Error(why));
    else this.abort?.(new Error(why));
  }

  private endTurn(): void {
    const address = this.turnOf;
    this.turnOf = undefined;
    if (address !== undefined) endTurn(address, this.exchange.run!.facts.client.key);
  }

  onHeaders(status: number, raw: Buffer[], resume: () => void, text: string): boolean {
    const { response, exchange } = this;
    if (status < 200) {
      // A client of HTTP/1.0 would take an interim answer for the final one.
      if (status === 103 && exchange.run!.facts.httpVersion !== '1.0') earlyHints(response, raw);
      return true;
    }
    this.began = true;
    this.resume = resume;
    exchange.status = status;
    exchange.upstream!.status = status;
    exchange.upstream!.durationUs = Math.round((performance.now() - this.startedMs) * 1000);
    exchange.snapshot.upstreams.succeeded(this.address());
    answered(exchange, status, raw);
    const flat = responseHeaders(raw, { dropLength: status === 204 });
    if (!this.hooks.requestComplete()) {
      response.shouldKeepAlive = false;
      flat.push('Connection', 'close');
    }
    if (exchange.snapshot.rateLimitFields === 'always') flat.push(...limitFields(exchange));
    response.sendDate = false;
    try {
      response.writeHead(status, reasonPhrase(text), flat);
    } catch (error) {
      this.hangUp((error as Error).message);
      return true;
    }
    if (status === 204 || status === 304) return this.endBodiless();
    if (isStream(flat)) response.flushHeaders();
    return true;
  }

  /**
   * Their Content-Length speaks of another answer (RFC 9110 section 8.6), but undici waits for that many
   * bytes.
   */
  private endBodiless(): boolean {
    this.ended = true;
    this.exchange.onClose = undefined;
    this.response.end();
    return true;
  }

  onComplete(trailers: Buffer[] | null): void {
    this.endTurn();
    if (this.ended) return;
    this.ended = true;
    this.exchange.onClose = undefined;
    if (trailers !== null && trailers.length > 0) this.response.addTrailers(pairs(trailers));
    this.response.end();
    if (this.body.kind === 'stream' && !this.hooks.requestComplete()) this.body.source.destroy();
  }

  onError(error: Error): void {
    this.endTurn();
    if (this.ended) return;
    const code = (error as NodeJS.ErrnoException).code ?? 'UNKNOWN';
    const { exchange, response } = this;
    const { upstreams } = exchange.snapshot;
    if (this.clientGone || response.destroyed) {
      this.ended = true;
      return;
    }
    upstreams.failed(this.address());
    if (exchange.upstream !== undefined) exchange.upstream.error = code;
    if (this.began) {
      this.ended = true;
      exchange.error = `the origin broke off in mid-answer (${code})`;
      response.destroy();
      return;
    }
    if (this.mayRetry(code)) return this.attempt();
    this.giveUp(TIMED_OUT.has(code) ? 504 : 502, `the origin did not answer (${code})`);
  }

  /** That of the attempt under way. */
  private address(): Address {
    return this.tried[this.tried.length - 1]!;
  }

  private mayRetry(code: string): boolean {
    if (this.tried.length >= ATTEMPTS_MAX || this.body.kind === 'stream') return false;
    if (NOT_SENT.has(code))
      return this.exchange.snapshot.upstreams.addresses(this.exchange.run!.facts.site).length > 1;
    return SOCKET_LOST.has(code) && IDEMPOTENT.has(this.exchange.run!.facts.method) && this.tried.length < 2;
  }

  private giveUp(status: 502 | 503 | 504, error: string): void {
    this.ended = true;
    this.exchange.onClose = undefined;
    if (this.body.kind === 'stream') this.body.source.destroy();
    this.exchange.error = error;
    this.hooks.fail(status, error);
  }

  readonly cancel = (): void => {
    this.ended = true;
    this.exchange.onClose = undefined;
    this.hangUp('refused in mid-body');
  };

  private readonly onClientClose = (): void => {
    if (this.ended || this.response.writableFinished) return;
    this.clientGone = true;
    this.exchange.clientAborted = true;
    this.hangUp('client left');
    if (this.body.kind === 'stream') this.body.source.destroy();
  };
}

/** What may not stand in a reason phrase is left out; the answer is kept. */
function reasonPhrase(text: string): string {
  return /[^\t\x20-\x7e]/.test(text) ? text.replace(/[^\t\x20-\x7e]/g, '') : text;
}

const STREAM_TYPE = /^(?:text\/event-stream|application\/(?:x-ndjson|stream\+json|grpc))/i;

function isStream(flat: readonly string[]): boolean {
  let chunked = true;
  for (let index = 0; index < flat.length; index += 2) {
    const name = flat[index]!;
    if (name.length === 14 && name.toLowerCase() === 'content-length') chunked = false;
    if (name.length === 12 && name.toLowerCase() === 'content-type' && STREAM_TYPE.test(flat[index + 1]!))
      return true;
  }
  return chunked;
}

function pairs(raw: readonly Buffer[]): [string, string][] {
  const out: [string, string][] = [];
  for (let index = 0; index < raw.length; index += 2) {
    out.push([raw[index]!.toString('latin1'), raw[index + 1]!.toString('latin1')]);
  }
  return out;
}
