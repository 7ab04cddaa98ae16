/**
 * One companion for each interface: two would take each other's lists away. The lock is a name among the
 * abstract sockets of this network namespace, which is also the one of the interface; it ends with its
 * process, however that ends, and leaves no file.
 */
import { createServer, type Server } from 'node:net';
import { Fault } from '../core/errors.js';

export type AgentLock = Readonly<{
  /** Throws XDP_SECOND_AGENT where another process has it. */
  take(): Promise<void>;
  release(): void;
}>;

export function createAgentLock(iface: string): AgentLock {
  let held: Server | undefined;
  return {
    take: () =>
      new Promise((resolve, reject) => {
        const server = createServer((socket) => socket.destroy());
        server.once('error', (error: NodeJS.ErrnoException) => {
          const why = error.code === 'EADDRINUSE' ? 'another one runs' : error.message;
          reject(new Fault('XDP_SECOND_AGENT', { interface: iface, why }, error));
        });
        server.listen(`\0tidegate-xdp/${iface}`, () => {
          server.unref();
          held = server;
          resolve();
        });
      }),
    release() {
      held?.close();
      held = undefined;
    },
  };
}
