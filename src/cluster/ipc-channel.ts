/** A `Channel` over node:cluster's IPC line. Sending to an end that is gone drops and answers false. */
import type { Channel } from '../core/channel.js';

/** Both `process` (in a worker) and a `Worker` (in the supervisor) look like this. */
export type IpcEnd = {
  send?(message: unknown, callback?: (error: Error | null) => void): boolean;
  on(event: 'message', listener: (message: unknown) => void): unknown;
};

type Packet = { t: string; b: unknown };

export function ipcChannel(end: IpcEnd, isOpen: () => boolean): Channel {
  const handlers = new Map<string, (body: unknown) => void>();
  end.on('message', (message) => {
    if (isPacket(message)) handlers.get(message.t)?.(message.b);
  });
  return {
    send(topic, body) {
      if (end.send === undefined || !isOpen()) return false;
      try {
        // The callback takes the error that would otherwise be emitted when the other end has just died.
        end.send({ t: topic, b: body }, () => undefined);
        return true;
      } catch {
        return false;
      }
    },
    on(topic, handler) {
      handlers.set(topic, handler);
    },
  };
}

function isPacket(message: unknown): message is Packet {
  return typeof message === 'object' && message !== null && typeof (message as Packet).t === 'string';
}
