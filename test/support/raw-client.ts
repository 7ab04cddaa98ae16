/**
 * A client that sends exactly the bytes it is given and reads whatever comes back; no library that repairs
 * requests.
 */
import { connect, type Socket } from 'node:net';
import { connect as connectTls, type ConnectionOptions, type TLSSocket } from 'node:tls';
import { once } from 'node:events';
import { setTimeout as sleep } from 'node:timers/promises';
import { bodyReader, chunked, framingOf, readHead, valueOf, type Pair } from './bytes.js';

export type Answer = {
  /** 0 when no status line came. */
  status: number;
  statusText: string;
  headers: Pair[];
  body: Buffer;
  bodyBytes: number;
  trailers: Pair[];
  /** The message ended as its framing says. */
  complete: boolean;
  /** The gate closed or reset the connection before or while this was read. */
  closed: boolean;
  timedOut: boolean;
  header(name: string): string | undefined;
  text(): string;
};

export type ReadOptions = {
  /** The answer has no body whatever its headers say (HEAD). */
  headOnly?: boolean;
  timeoutMs?: number;
  /** Called with each part of the body; the parts are then not kept. */
  onPart?: (part: Buffer) => void;
  /** Interim (1xx) answers are read over unless this is set. */
  interim?: boolean;
  /** Connect by TLS. */
  tls?: TlsOptions;
};

/** `servername` is sent as it is; absent: none is. The certificate is not checked. */
export type TlsOptions = { servername?: string; prefix?: Buffer | string };

export class RawConnection {
  readonly socket: Socket;
  closed = false;
  resetByPeer = false;
  private pending: Buffer = Buffer.alloc(0);
  private wake: () => void = () => undefined;
  /** The TCP connection itself, under TLS. */
  private readonly below: Socket;

  constructor(socket: Socket, below: Socket = socket) {
    this.socket = socket;
    this.below = below;
    socket.on('data', (part: Buffer) => {
      this.pending = this.pending.length === 0 ? part : Buffer.concat([this.pending, part]);
      if (this.pending.length > 4 * 1024 * 1024) socket.pause();
      this.wake();
    });
    socket.on('error', () => (this.resetByPeer = true));
    const gone = (): void => {
      this.closed = true;
      this.wake();
    };
    socket.on('end', gone);
    socket.on('close', gone);
  }

  static async open(port: number, host = '127.0.0.1'): Promise<RawConnection> {
    const socket = connect({ port, host, allowHalfOpen: true, noDelay: true });
    await once(socket, 'connect');
    return new RawConnection(socket);
  }

  /** `prefix` goes out in the clear before the TLS handshake (a PROXY header). */
  static async openTls(port: number, { servername, prefix }: TlsOptions = {}): Promise<RawConnection> {
    const below = connect({ port, host: '127.0.0.1', allowHalfOpen: true, noDelay: true });
    await once(below, 'connect');
    if (prefix !== undefined) below.write(prefix);
    const options: ConnectionOptions & { allowHalfOpen: boolean } = {
      socket: below,
      rejectUnauthorized: false,
      allowHalfOpen: true,
      ...(servername === undefined ? {} : { servername }),
    };
    const socket = connectTls(options);
    await once(socket, 'secureConnect');
    below.on('error', () => undefined);
    return new RawConnection(socket, below);
  }

  /** SHA-256 fingerprint of the certificate that the other side showed. */
  get fingerprint(): string {
    return (this.socket as TLSSocket).getPeerCertificate().fingerprint256;
  }

  /** Resolves when the kernel took the bytes; a peer that has closed is not an error here. */
  async send(bytes: Buffer | string): Promise<void> {
    if (this.socket.destroyed || !this.socket.writable) return;
    const data = typeof bytes === 'string' ? Buffer.from(bytes, 'latin1') : bytes;
    await new Promise<void>((resolve) => {
      const done = (): void => {
        this.socket.off('close', done);
        resolve();
      };
      this.socket.once('close', done);
      this.socket.write(data, done);
    });
  }

  /** Waits for more bytes, the end, or the deadline; false at the deadline. */
  private async more(deadline: number): Promise<boolean> {
    const left = deadline - Date.now();
    if (left <= 0) return false;
    this.socket.resume();
    const cancel = new AbortController();
    const woken = new Promise<true>((done) => (this.wake = () => done(true)));
    const late = sleep(left, false as const, { signal: cancel.signal }).catch(() => false as const);
    const result = await Promise.race([woken, late]);
    cancel.abort();
    return result;
  }

  async read(options: ReadOptions = {}): Promise<Answer> {
    const deadline = Date.now() + (options.timeoutMs ?? 5000);
    const answer = emptyAnswer();
    let head = readHead(this.pending);
    while (head === undefined) {
      if (this.closed) return Object.assign(answer, { closed: true });
      if (!(await this.more(deadline))) return Object.assign(answer, { timedOut: true });
      head = readHead(this.pending);
    }
    this.pending = this.pending.subarray(head.bytes);
    const found = /^HTTP\/1\.[01] (\d{3}) ?(.*)$/.exec(head.startLine);
    answer.status = Number(found?.[1] ?? 0);
    answer.statusText = found?.[2] ?? '';
    answer.headers = head.headers;
    if (answer.status >= 100 && answer.status < 200 && answer.status !== 101) {
      return options.interim === true ? Object.assign(answer, { complete: true }) : this.read(options);
    }
    await this.readBody(answer, options, deadline);
    return answer;
  }

  private async readBody(answer: Answer, options: ReadOptions, deadline: number): Promise<void> {
    const empty = options.headOnly === true || [101, 204, 304].includes(answer.status);
    const framing = empty ? ({ kind: 'none' } as const) : framingOf(answer.headers, { kind: 'close' });
    const kept: Buffer[] = [];
    const reader = bodyReader(framing, (part) => {
      answer.bodyBytes += part.length;
      if (options.onPart) options.onPart(part);
      else kept.push(part);
    });
    for (;;) {
      if (!reader.done && this.pending.length > 0) {
        const taken = this.pending;
        this.pending = Buffer.alloc(0);
        this.pending = reader.push(taken);
      }
      if (reader.done) break;
      if (this.closed && this.pending.length === 0) break;
      if (!(await this.more(deadline))) {
        answer.timedOut = true;
        break;
      }
    }
    answer.body = Buffer.concat(kept);
    answer.trailers = reader.trailers;
    answer.complete = reader.done || (framing.kind === 'close' && this.closed && !this.resetByPeer);
    answer.closed = this.closed;
  }

  /**
   * Bytes beyond the answers read so far (after an upgrade: the tunnel), waiting for at least `count` of
   * them.
   */
  async take(count: number, timeoutMs = 3000): Promise<Buffer> {
    const deadline = Date.now() + timeoutMs;
    while (this.pending.length < count && !this.closed && (await this.more(deadline)));
    const taken = this.pending;
    this.pending = Buffer.alloc(0);
    return taken;
  }

  /** True when the other side closes within the time. */
  async closes(timeoutMs = 2000): Promise<boolean> {
    const deadline = Date.now() + timeoutMs;
    while (!this.closed && (await this.more(deadline)));
    return this.closed;
  }

  end(): void {
    this.socket.end();
  }

  /** Reads nothing more, under TLS either. */
  freeze(): void {
    this.socket.pause();
    this.below.pause();
  }

  reset(): void {
    this.below.resetAndDestroy();
    this.socket.destroy();
  }

  destroy(): void {
    this.socket.destroy();
  }
}

function emptyAnswer(): Answer {
  const answer: Answer = {
    status: 0,
    statusText: '',
    headers: [],
    body: Buffer.alloc(0),
    bodyBytes: 0,
    trailers: [],
    complete: false,
    closed: false,
    timedOut: false,
    header: (name) => valueOf(answer.headers, name.toLowerCase()),
    text: () => answer.body.toString('utf8'),
  };
  return answer;
}

/** One request on its own connection. */
export async function exchange(
  port: number,
  bytes: Buffer | string,
  options: ReadOptions = {},
): Promise<Answer> {
  const connection = options.tls
    ? await RawConnection.openTls(port, options.tls)
    : await RawConnection.open(port);
  try {
    void connection.send(bytes);
    const answer = await connection.read(options);
    if (answer.header('connection') === 'close') answer.closed = await connection.closes(1000);
    return answer;
  } finally {
    connection.destroy();
  }
}

export type RequestSpec = {
  method?: string;
  target?: string;
  host?: string | null;
  /** Exactly these, after Host; replaces the browser's usual ones when `bare` is set. */
  headers?: readonly Pair[];
  bare?: boolean;
  body?: Buffer | string;
  /** `length` by default where there is a body. */
  framing?: 'length' | 'chunked' | 'none';
};

export const BROWSER: readonly Pair[] = [
  ['User-Agent', 'Mozilla/5.0 (X11; Linux x86_64; rv:128.0) Gecko/20100101 Firefox/128.0'],
  ['Accept', 'text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8'],
  ['Accept-Language', 'en-GB,en;q=0.5'],
  ['Referer', 'https://app.test/'],
];

/** The bytes of an ordinary request with what the test changes about it. Strings are Latin-1. */
export function request(spec: RequestSpec = {}): Buffer {
  const body = spec.body === undefined ? undefined : Buffer.from(spec.body as string, 'latin1');
  const lines = [`${spec.method ?? (body ? 'POST' : 'GET')} ${spec.target ?? '/'} HTTP/1.1`];
  if (spec.host !== null) lines.push(`Host: ${spec.host ?? 'app.test'}`);
  const given = spec.headers ?? [];
  const named = new Set(given.map(([name]) => name.toLowerCase()));
  const base = spec.bare === true ? [] : BROWSER.filter(([name]) => !named.has(name.toLowerCase()));
  for (const [name, value] of [...base, ...given]) lines.push(`${name}: ${value}`);
  const framing = spec.framing ?? (body ? 'length' : 'none');
  if (framing === 'length') lines.push(`Content-Length: ${body?.length ?? 0}`);
  if (framing === 'chunked') lines.push('Transfer-Encoding: chunked');
  const head = Buffer.from(`${lines.join('\r\n')}\r\n\r\n`, 'latin1');
  if (!body) return head;
  return Buffer.concat([head, framing === 'chunked' ? chunked(body, 4096) : body]);
}
