/**
 * One end of a wire, in a network namespace: sends and counts real packets, told what to do over IPC by
 * `wire.ts`. Plain JavaScript, so that it starts at once.
 */
import dgram from 'node:dgram';
import http from 'node:http';
import net from 'node:net';

const received = new Map();
const connections = new Map();
let next = 1;

const familyOf = (address) => (address.includes(':') ? 'udp6' : 'udp4');

const bound = (address, port = 0) =>
  new Promise((resolve, reject) => {
    const socket = dgram.createSocket({
      type: familyOf(address),
      recvBufferSize: 4 << 20,
      sendBufferSize: 4 << 20,
    });
    socket.once('error', reject);
    socket.bind({ address, port }, () => resolve(socket));
  });

const sendOne = (socket, port, to) =>
  new Promise((resolve) => socket.send('tidegate', port, to, () => resolve()));

/** Settles with 'late' where the time is over first. */
const within = (ms, promise) =>
  Promise.race([promise, new Promise((resolve) => setTimeout(() => resolve('late'), ms))]);

const actions = {
  /** Counts datagrams by source address. */
  async listenUdp({ address, port }) {
    const socket = await bound(address, port);
    socket.on('message', (_, { address: from }) => received.set(from, (received.get(from) ?? 0) + 1));
  },
  received: () => Object.fromEntries(received),
  forget: () => received.clear(),
  /** `count` datagrams, with a breath now and then, so that the wire's short queue has them all; how long it took. */
  async udp({ from, to, port, count }) {
    const socket = await bound(from);
    const started = performance.now();
    for (let at = 1; at <= count; at++) {
      await sendOne(socket, port, to);
      if (at % 64 === 0) await new Promise((resolve) => setTimeout(resolve, 1));
    }
    socket.close();
    return performance.now() - started;
  },
  /** Datagrams without a pause for `ms`; answers how many. */
  async flood({ from, to, port, ms }) {
    const socket = await bound(from);
    const end = Date.now() + ms;
    let sent = 0;
    while (Date.now() < end) {
      await Promise.all(Array.from({ length: 32 }, () => sendOne(socket, port, to)));
      sent += 32;
    }
    socket.close();
    return sent;
  },
  listenTcp: ({ address, port }) =>
    new Promise((resolve, reject) => {
      const server = net.createServer((socket) => {
        socket.on('error', () => undefined);
        socket.pipe(socket);
      });
      server.once('error', reject);
      server.listen({ host: address, port }, resolve);
    }),
  /** A connection's number, or undefined where none came about in time. */
  async connect({ from, to, port, ms }) {
    const socket = net.connect({ host: to, port, localAddress: from });
    const outcome = await within(
      ms,
      new Promise((resolve) => {
        socket.on('error', () => resolve('failed'));
        socket.once('connect', () => resolve('open'));
      }),
    );
    if (outcome !== 'open') {
      socket.destroy();
      return undefined;
    }
    const id = next++;
    connections.set(id, socket);
    return id;
  },
  /** Whether the other end of an open connection says the same in time. */
  async echo({ connection, text, ms }) {
    const socket = connections.get(connection);
    const heard = new Promise((resolve) => {
      let all = '';
      socket.on('data', (part) => {
        all += part;
        if (all.includes(text)) resolve(true);
      });
      socket.once('close', () => resolve(false));
    });
    socket.write(text);
    return (await within(ms, heard)) === true;
  },
  /** An origin: nobody can log in, all else is well. */
  listenHttp: ({ port }) =>
    new Promise((resolve, reject) => {
      const server = http.createServer((request, response) => {
        request.resume();
        request.once('end', () => response.writeHead(request.method === 'POST' ? 401 : 200).end('origin\n'));
      });
      server.once('error', reject);
      server.listen({ host: '127.0.0.1', port }, resolve);
    }),
  /** The body of an HTTP answer; empty where none came in time. */
  async text({ to, port, path, ms }) {
    const signal = AbortSignal.timeout(ms);
    return fetch(`http://${to}:${port}${path}`, { signal }).then(
      (answer) => answer.text(),
      () => '',
    );
  },
  /** An HTTP status; 0 where no answer came in time. A `form` is sent with POST. */
  async ask({ from, to, port, path, form, ms }) {
    const headers = { host: 'app.test', 'user-agent': 'Mozilla/5.0', accept: '*/*' };
    if (form !== undefined) headers['content-type'] = 'application/x-www-form-urlencoded';
    const asked = new Promise((resolve) => {
      const options = { host: to, port, path, localAddress: from, agent: false, headers };
      const request = http.request(
        { ...options, method: form === undefined ? 'GET' : 'POST' },
        (response) => {
          response.resume();
          response.once('close', () => resolve(response.statusCode));
        },
      );
      request.on('error', () => resolve(0));
      setTimeout(() => request.destroy(), ms);
      request.end(form);
    });
    const status = await within(ms, asked);
    return status === 'late' ? 0 : status;
  },
};

process.on('message', ({ id, what, ...given }) => {
  Promise.resolve()
    .then(() => actions[what](given))
    .then(
      (value) => process.send({ id, value }),
      (error) => process.send({ id, error: String(error) }),
    );
});
process.on('disconnect', () => process.exit(0));
process.send({ id: 0 });
