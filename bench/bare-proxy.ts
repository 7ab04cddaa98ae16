/**
 * The yardstick: Node's http server and undici's Pool.dispatch, nothing else. PORT and UPSTREAM come from the
 * environment.
 */
import http from 'node:http';
import { Pool, type Dispatcher } from 'undici';

const pool = new Pool(process.env['UPSTREAM'] ?? 'http://127.0.0.1:9000', {
  connections: 128,
  pipelining: 1,
});
const HOP = new Set([
  'connection',
  'keep-alive',
  'transfer-encoding',
  'upgrade',
  'te',
  'trailer',
  'host',
  'content-length',
  'expect',
]);

const server = http.createServer((request, response) => {
  const headers: string[] = ['Host', request.headers.host ?? ''];
  for (let index = 0; index < request.rawHeaders.length; index += 2) {
    if (!HOP.has(request.rawHeaders[index]!.toLowerCase())) {
      headers.push(request.rawHeaders[index]!, request.rawHeaders[index + 1]!);
    }
  }
  const length = request.headers['content-length'];
  if (length !== undefined) headers.push('Content-Length', length);
  const handler = {
    onConnect: () => undefined,
    onHeaders(status: number, raw: Buffer[], resume: () => void, text: string) {
      const flat: string[] = [];
      for (let index = 0; index < raw.length; index += 2) {
        const name = raw[index]!.toString('latin1');
        if (!HOP.has(name.toLowerCase()) || name.length === 14)
          flat.push(name, raw[index + 1]!.toString('latin1'));
      }
      response.sendDate = false;
      response.writeHead(status, text, flat);
      response.on('drain', resume);
      return true;
    },
    onData: (chunk: Buffer) => response.write(chunk),
    onComplete: () => void response.end(),
    onError: () => void response.destroy(),
  };
  const options: Dispatcher.DispatchOptions = {
    path: request.url ?? '/',
    method: request.method as Dispatcher.HttpMethod,
    headers,
    body: length === undefined ? null : request,
  };
  pool.dispatch(options, handler as unknown as Dispatcher.DispatchHandler);
});
server.listen(Number(process.env['PORT'] ?? 0), '127.0.0.1');
