/** A TCP line to Redis that a test can slow down, let fall silent (half open), or cut. */
import { connect, createServer, type AddressInfo, type Socket } from 'node:net';

export type RedisProxy = Readonly<{
  port: number;
  /** True: bytes go nowhere, both ways, and no connection ends. */
  swallow(on: boolean): void;
  /** Answers come so much later, in milliseconds. */
  delay(ms: number): void;
  /** Ends all connections. */
  cut(): void;
  /** Connections accepted so far. */
  accepted(): number;
  close(): Promise<void>;
}>;

export async function startProxy(target: number): Promise<RedisProxy> {
  const sockets = new Set<Socket>();
  let swallowing = false;
  let delayMs = 0;
  let accepted = 0;
  const server = createServer((client) => {
    accepted++;
    const redis = connect(target, '127.0.0.1');
    // What a silent line has lost is lost: it never speaks again, as behind a dropped NAT entry.
    let silent = false;
    const relay = (to: Socket, waitMs: number, part: Buffer): void => {
      silent ||= swallowing;
      if (silent) return;
      if (waitMs === 0) to.write(part);
      else setTimeout(() => void (to.destroyed || to.write(part)), waitMs);
    };
    client.on('data', (part) => relay(redis, 0, part));
    redis.on('data', (part) => relay(client, delayMs, part));
    for (const [one, other] of [
      [client, redis],
      [redis, client],
    ] as const) {
      sockets.add(one);
      one.on('error', () => undefined);
      one.on('close', () => {
        sockets.delete(one);
        if (!silent || one === client) other.destroy();
      });
    }
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return {
    port: (server.address() as AddressInfo).port,
    swallow: (on) => void (swallowing = on),
    delay: (ms) => void (delayMs = ms),
    cut: () => sockets.forEach((socket) => socket.destroy()),
    accepted: () => accepted,
    async close() {
      const ended = new Promise((resolve) => server.close(resolve));
      sockets.forEach((socket) => socket.destroy());
      await ended;
    },
  };
}
