/**
 * The origin of `make run`: a page, a login, JSON, an upload, an event stream, a WebSocket echo. Only on
 * loopback.
 */
import { createHash } from 'node:crypto';
import http, { type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { Duplex } from 'node:stream';
import { Fault } from '../core/errors.js';

export type DemoOrigin = Readonly<{ url: string; close(): void }>;

const PAGE = `<!doctype html><html lang="en"><meta charset="utf-8"><title>Demo origin</title>
<body style="font:1rem/1.5 system-ui;margin:3rem auto;max-width:40rem"><h1>The demo origin</h1>
<p>You reached it through Tidegate.</p>
<form method="post" action="/api/login">
<input name="username"><input name="password" type="password"><button>Log in</button></form>
<form method="post" action="/upload" enctype="multipart/form-data">
<input type="file" name="file"><button>Upload</button></form>
</body></html>`;

/** So that failed logins can be tried: the password `wrong`, in JSON or a form, is refused with 401. */
const WRONG_PASSWORD = /"?password"?[:=] ?"?wrong\b/;
const LOGIN_MAX = 1024;

const ITEMS = {
  items: [
    { id: 1, name: 'tide table' },
    { id: 2, name: 'sluice' },
  ],
};

/** Port 0 takes any. Throws LISTEN_FAILED. */
export function startDemoOrigin(port: number): Promise<DemoOrigin> {
  const server = http.createServer(answer);
  server.on('upgrade', (request: IncomingMessage, socket: Duplex, head: Buffer) =>
    echo(request, socket, head),
  );
  return new Promise((resolve, reject) => {
    server.once('error', (error) => {
      reject(new Fault('LISTEN_FAILED', { address: `127.0.0.1:${port}`, why: error.message }, error));
    });
    server.listen(port, '127.0.0.1', () => {
      const { port: given } = server.address() as AddressInfo;
      resolve({
        url: `http://127.0.0.1:${given}`,
        close() {
          server.close();
          server.closeAllConnections();
        },
      });
    });
  });
}

function answer(request: IncomingMessage, response: ServerResponse): void {
  const path = (request.url ?? '/').split('?', 1)[0];
  if (path === '/events') return events(response);
  let bytes = 0;
  let beginning = '';
  request.on('data', (chunk: Buffer) => {
    bytes += chunk.length;
    if (beginning.length < LOGIN_MAX) beginning += chunk.toString('latin1', 0, LOGIN_MAX);
  });
  request.on('end', () => {
    if (path === '/api/items') return json(response, ITEMS);
    if (path === '/api/login' && WRONG_PASSWORD.test(beginning))
      return json(response, { loggedIn: false, note: 'wrong password' }, 401);
    if (path === '/api/login') return json(response, { loggedIn: false, note: 'this origin knows nobody' });
    if (request.method !== 'GET' && request.method !== 'HEAD') return json(response, { received: bytes });
    response.writeHead(200, {
      'Content-Type': 'text/html; charset=utf-8',
      'Content-Length': Buffer.byteLength(PAGE),
    });
    response.end(PAGE);
  });
}

function json(response: ServerResponse, body: unknown, status = 200): void {
  const text = JSON.stringify(body);
  const length = Buffer.byteLength(text);
  response.writeHead(status, { 'Content-Type': 'application/json', 'Content-Length': length });
  response.end(text);
}

function events(response: ServerResponse): void {
  response.writeHead(200, { 'Content-Type': 'text/event-stream', 'Cache-Control': 'no-cache' });
  let count = 0;
  const timer = setInterval(() => response.write(`data: ${++count}\n\n`), 1_000);
  response.on('close', () => clearInterval(timer));
}

/** WebSocket (RFC 6455) as far as short texts need it: each frame is sent back unmasked. */
function echo(request: IncomingMessage, socket: Duplex, head: Buffer): void {
  const key = request.headers['sec-websocket-key'];
  socket.on('error', () => socket.destroy());
  if (key === undefined) return void socket.end('HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n');
  const accept = createHash('sha1').update(`${key}258EAFA5-E914-47DA-95CA-C5AB0DC85B11`).digest('base64');
  socket.write(
    'HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n' +
      `Sec-WebSocket-Accept: ${accept}\r\n\r\n`,
  );
  let held: Buffer = Buffer.alloc(0);
  const read = (part: Buffer): void => {
    held = held.length === 0 ? part : Buffer.concat([held, part]);
    for (;;) {
      const length = (held[1] ?? 0) & 127;
      // Longer frames have their length elsewhere; this echo is for a line typed by hand.
      if (length > 125) return void socket.destroy();
      if (held.length < 6 + length) return;
      const mask = held.subarray(2, 6);
      const payload = Buffer.from(held.subarray(6, 6 + length).map((byte, index) => byte ^ mask[index & 3]!));
      const opcode = held[0]! & 15;
      held = held.subarray(6 + length);
      socket.write(Buffer.concat([Buffer.from([0x80 | (opcode === 9 ? 10 : opcode), length]), payload]));
      if (opcode === 8) return void socket.end();
    }
  };
  if (head.length > 0) read(head);
  socket.on('data', read);
}
