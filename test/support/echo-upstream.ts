/**
 * An origin that stores the raw bytes of what it receives, connection by connection, and answers raw bytes on
 * demand.
 */
import { createHash, type Hash } from 'node:crypto';
import { once } from 'node:events';
import { createServer, type AddressInfo, type Server, type Socket } from 'node:net';
import { bodyReader, framingOf, readHead, valueOf, valuesOf, type BodyReader, type Pair } from './bytes.js';

const KEPT_BYTES_MAX = 2 * 1024 * 1024;

export class Seen {
  startLine = '';
  method = '';
  target = '';
  headers: Pair[] = [];
  trailers: Pair[] = [];
  /** The first 2 MiB of the body, decoded from chunks. */
  body: Buffer = Buffer.alloc(0);
  bodyBytes = 0;
  sha256 = '';
  complete = false;
  readonly connection: number;
  readonly hash: Hash = createHash('sha256');

  constructor(connection: number) {
    this.connection = connection;
  }

  header(name: string): string | undefined {
    return valueOf(this.headers, name.toLowerCase());
  }

  all(name: string): string[] {
    return valuesOf(this.headers, name.toLowerCase());
  }
}

export type UpstreamConnection = {
  id: number;
  socket: Socket;
  bytes: number;
  /** Everything received, up to 2 MiB. */
  raw: Buffer;
  closed: boolean;
  hadError: boolean;
};

/**
 * Answers a request: raw bytes, or undefined when the function wrote to the socket (or wants silence) itself.
 */
export type Script = (
  seen: Seen,
  socket: Socket,
) => Buffer | string | undefined | Promise<Buffer | string | undefined>;

export class EchoUpstream {
  readonly requests: Seen[] = [];
  readonly connections: UpstreamConnection[] = [];
  /** Runs when a request is complete. */
  script: Script | undefined;
  /**
   * Runs as soon as a head is complete; returning bytes answers early. After 101 the socket is the script's
   * own.
   */
  onHead: Script | undefined;
  /** Keeps the raw bytes and requests only while true: switch off under load. */
  keep = true;
  bytesReceived = 0;
  completed = 0;
  private readonly server: Server;

  private constructor() {
    this.server = createServer({ noDelay: true }, (socket) => this.accept(socket));
  }

  static async start(port = 0, host = '127.0.0.1'): Promise<EchoUpstream> {
    const upstream = new EchoUpstream();
    upstream.server.listen(port, host);
    await once(upstream.server, 'listening');
    return upstream;
  }

  get port(): number {
    return (this.server.address() as AddressInfo).port;
  }

  get url(): string {
    return `http://127.0.0.1:${this.port}`;
  }

  /** Connections that carried a request and are still open; pools also open idle ones ahead. */
  get open(): number {
    return this.connections.filter(({ closed, bytes }) => !closed && bytes > 0).length;
  }

  get last(): Seen | undefined {
    return this.requests.at(-1);
  }

  reset(): void {
    this.requests.length = 0;
    this.script = undefined;
    this.onHead = undefined;
  }

  async close(): Promise<void> {
    for (const { socket } of this.connections) socket.destroy();
    if (!this.server.listening) return;
    this.server.close();
    await once(this.server, 'close');
  }

  private accept(socket: Socket): void {
    const connection: UpstreamConnection = {
      id: this.connections.length,
      socket,
      bytes: 0,
      raw: Buffer.alloc(0),
      closed: false,
      hadError: false,
    };
    this.connections.push(connection);
    const parser = new RequestParser(this, connection);
    socket.on('data', (part: Buffer) => {
      connection.bytes += part.length;
      this.bytesReceived += part.length;
      if (this.keep && connection.raw.length < KEPT_BYTES_MAX) {
        connection.raw = Buffer.concat([connection.raw, part]).subarray(0, KEPT_BYTES_MAX);
      }
      parser.push(part);
    });
    socket.on('error', () => (connection.hadError = true));
    socket.on('close', () => (connection.closed = true));
  }
}

class RequestParser {
  private rest: Buffer = Buffer.alloc(0);
  private seen: Seen | undefined;
  private reader: BodyReader | undefined;
  private tunnel = false;
  private queue: Promise<void> = Promise.resolve();
  private readonly upstream: EchoUpstream;
  private readonly connection: UpstreamConnection;

  constructor(upstream: EchoUpstream, connection: UpstreamConnection) {
    this.upstream = upstream;
    this.connection = connection;
  }

  push(part: Buffer): void {
    if (this.tunnel) return;
    this.rest = this.rest.length === 0 ? part : Buffer.concat([this.rest, part]);
    for (;;) {
      if (!this.seen && !this.startRequest()) return;
      if (this.tunnel || !this.seen || !this.reader) return;
      if (!this.reader.done) this.rest = this.reader.push(this.rest);
      if (!this.reader.done) return;
      this.finishRequest(this.seen, this.reader);
    }
  }

  private startRequest(): boolean {
    const head = readHead(this.rest);
    if (!head) return false;
    this.rest = this.rest.subarray(head.bytes);
    const seen = new Seen(this.connection.id);
    const words = head.startLine.split(' ');
    Object.assign(seen, {
      startLine: head.startLine,
      method: words[0],
      target: words[1],
      headers: head.headers,
    });
    const kept: Buffer[] = [];
    let keptBytes = 0;
    this.reader = bodyReader(framingOf(head.headers, { kind: 'none' }), (part) => {
      seen.bodyBytes += part.length;
      seen.hash.update(part);
      if (!this.upstream.keep || keptBytes >= KEPT_BYTES_MAX) return;
      kept.push(Buffer.from(part));
      keptBytes += part.length;
      seen.body = Buffer.concat(kept);
    });
    this.seen = seen;
    if (this.upstream.keep) this.upstream.requests.push(seen);
    if (this.upstream.onHead) this.answer(seen, this.upstream.onHead);
    if (/\bupgrade\b/i.test(seen.header('connection') ?? '') && this.upstream.onHead) this.tunnel = true;
    return true;
  }

  private finishRequest(seen: Seen, reader: BodyReader): void {
    seen.trailers = reader.trailers;
    seen.complete = true;
    seen.sha256 = seen.hash.digest('hex');
    this.upstream.completed += 1;
    this.seen = undefined;
    this.reader = undefined;
    if (this.upstream.script) this.answer(seen, this.upstream.script);
    else if (!this.upstream.onHead) this.answer(seen, echo);
  }

  private answer(seen: Seen, script: Script): void {
    const { socket } = this.connection;
    this.queue = this.queue.then(async () => {
      const bytes = await script(seen, socket);
      if (bytes !== undefined && !socket.destroyed) socket.write(bytes);
    });
  }
}

/** The default answer: 200 and a JSON record of what arrived. */
export function echo(seen: Seen): Buffer {
  const { method, target, headers, bodyBytes, sha256 } = seen;
  const body = Buffer.from(JSON.stringify({ method, target, headers, bodyBytes, sha256 }));
  if (method === 'HEAD') return ok(body, 'application/json').subarray(0, -body.length);
  return ok(body, 'application/json');
}

export function ok(body: Buffer | string, type = 'text/plain', extra = ''): Buffer {
  const bytes = Buffer.from(body as string);
  const head = `HTTP/1.1 200 OK\r\nContent-Type: ${type}\r\nContent-Length: ${bytes.length}\r\n${extra}\r\n`;
  return Buffer.concat([Buffer.from(head), bytes]);
}
