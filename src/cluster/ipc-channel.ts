/**
 * A `Channel` over node:cluster's IPC line. Sending to an end that is gone drops and answers false, and so
 * does sending to one that stopped reading: what waits in the line is bounded, since Node would queue without
 * end.
 */
import type { Channel } from '../core/channel.js';

/** Both `process` (in a worker) and a `Worker` (in the supervisor) look like this. */
export type IpcEnd = {
  send?(message: unknown, callback?: (error: Error | null) => void): boolean;
  on(event: 'message', listener: (message: unknown) => void): unknown;
};

export type IpcChannel = Channel & {
  /** Messages that were not sent. */
  dropped(): number;
};

type Packet = { t: string; b: unknown };

const WAITING_MAX = 10_000;

/**
 * `isOpen` says whether the other end is there; `waitingMax` bounds messages that the line has not taken yet.
 */
export function ipcChannel(end: IpcEnd, isOpen: () => boolean, waitingMax = WAITING_MAX): IpcChannel {
  const handlers = new Map<string, (body: unknown) => void>();
  let waiting = 0;
  let dropped = 0;
  // The callback also takes the error that would otherwise be emitted when the other end has just died.
  const taken = (): void => void waiting--;
  const drop = (): false => {
    dropped++;
    return false;
  };
  end.on('message', (message) => {
    if (isPacket(message)) handlers.get(message.t)?.(message.b);
  });
  return {
    send(topic, body) {
      if (end.send === undefined || !isOpen() || waiting >= waitingMax) return drop();
      waiting++;
      try {
        end.send({ t: topic, b: body }, taken);
        return true;
      } catch {
        waiting--;
        return drop();
      }
    },
    on(topic, handler) {
      handlers.set(topic, handler);
    },
    dropped: () => dropped,
  };
}

function isPacket(message: unknown): message is Packet {
  return typeof message === 'object' && message !== null && typeof (message as Packet).t === 'string';
}
