import { once } from 'node:events';
import net, { type AddressInfo, type Socket } from 'node:net';
import t, { type Test } from 'tap';
import { cutWhenSilent } from './half-closed.js';

async function pair(t: Test, graceMs: number): Promise<{ client: Socket; served: Socket }> {
  const server = net.createServer({ allowHalfOpen: true });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const client = net.connect({ port: (server.address() as AddressInfo).port, allowHalfOpen: true });
  const [served] = (await once(server, 'connection')) as [Socket];
  served.on('error', () => undefined);
  client.on('error', () => undefined);
  cutWhenSilent(served, () => graceMs);
  served.resume();
  t.teardown(() => {
    client.destroy();
    served.destroy();
    server.close();
  });
  return { client, served };
}

t.test('a client that has closed its side is cut after a silence', async (t) => {
  const { client, served } = await pair(t, 50);
  client.resume();
  client.end();
  await once(served, 'close');
  t.ok(served.destroyed);
});

t.test('it may read on for as long as something is written to it', async (t) => {
  const { client, served } = await pair(t, 500);
  let got = '';
  client.on('data', (part: Buffer) => (got += part.toString()));
  client.end();
  let sent = 0;
  const timer = setInterval(() => {
    served.write('x');
    if (++sent < 20) return;
    clearInterval(timer);
    served.end();
  }, 60);
  await once(client, 'end');
  t.equal(got, 'x'.repeat(20), 'all of it, more than two graces later');
});
