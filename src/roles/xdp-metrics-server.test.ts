import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import t from 'tap';
import { Registry } from 'prom-client';
import { createMetricsServer } from './xdp-metrics-server.js';

t.test('a scrape is answered however many connections lie idle', async (t) => {
  const server = createMetricsServer('127.0.0.1:0', new Registry());
  const url = new URL(await server.listen());
  const idle: Socket[] = [];
  t.teardown(async () => {
    for (const socket of idle) socket.destroy();
    await server.close();
  });
  for (let count = 0; count < 100; count++) {
    const socket = connect(Number(url.port), url.hostname);
    socket.on('error', () => undefined);
    await once(socket, 'connect');
    idle.push(socket);
  }
  const answer = await fetch(url);
  t.equal(answer.status, 200);
  await answer.text();
});
