/** The origin of \`make run\`: a page, a login, JSON, an upload, an event stream. Answers only on loopback. */
import http, { type IncomingMessage, type ServerResponse } from 'node:http';
import { Fault } from '../core/errors.js';

const PAGE = `<!doctype html><html lang="en"><meta charset="utf-8"><title>Demo origin</title>
<body style="font:1rem/1.5 system-ui;margin:3rem auto;max-width:40rem"><h1>The demo origin</h1>
<p>You reached it through Tidegate.</p>
<form method="post" action="/api/login"><input name="username"><input name="password" type="password"><button>Log in</button></form>
</body></html>`;

export function startDemoOrigin(port: number): Promise<http.Server> {
  const server = http.createServer((request, response) => answer(request, response));
  return new Promise((resolve, reject) => {
    server.once('error', (error) => {
      reject(new Fault('LISTEN_FAILED', { address: `127.0.0.1:${port}`, why: error.message }, error));
    });
    server.listen(port, '127.0.0.1', () => resolve(server));
  });
}

function answer(request: IncomingMessage, response: ServerResponse): void {
  const path = (request.url ?? '/').split('?', 1)[0];
  if (path === '/events') return events(response);
  let bytes = 0;
  request.on('data', (chunk: Buffer) => void (bytes += chunk.length));
  request.on('end', () => {
    if (path === '/api/items') return json(response, { items: [{ id: 1, name: 'tide table' }, { id: 2, name: 'sluice' }] });
    if (path === '/api/login') return json(response, { loggedIn: false, note: 'this origin knows nobody' });
    if (request.method !== 'GET' && request.method !== 'HEAD') return json(response, { received: bytes });
    response.writeHead(200, { 'Content-Type': 'text/html; charset=utf-8', 'Content-Length': Buffer.byteLength(PAGE) });
    response.end(PAGE);
  });
}

function json(response: ServerResponse, body: unknown): void {
  const text = JSON.stringify(body);
  response.writeHead(200, { 'Content-Type': 'application/json', 'Content-Length': Buffer.byteLength(text) });
  response.end(text);
}

function events(response: ServerResponse): void {
  response.writeHead(200, { 'Content-Type': 'text/event-stream', 'Cache-Control': 'no-cache' });
  let count = 0;
  const timer = setInterval(() => response.write(`data: ${++count}\n\n`), 1_000);
  response.on('close', () => clearInterval(timer));
}
