/**
 * A two-way line between supervisor and worker (IPC), or two ends in one process for tests and one-shot
 * commands.
 */

export type Channel = {
  /** `body` must survive JSON. Never throws; a closed line drops and returns false. */
  send(topic: string, body: unknown): boolean;
  /** One handler a topic; a second call replaces the first. */
  on(topic: string, handler: (body: unknown) => void): void;
};

/** Two joined ends, delivering in a microtask. */
export function channelPair(): [Channel, Channel] {
  const handlers = [
    new Map<string, (body: unknown) => void>(),
    new Map<string, (body: unknown) => void>(),
  ] as const;
  const end = (mine: 0 | 1): Channel => ({
    send(topic, body) {
      const handler = handlers[mine === 0 ? 1 : 0].get(topic);
      if (handler === undefined) return false;
      queueMicrotask(() => handler(body));
      return true;
    },
    on(topic, handler) {
      handlers[mine].set(topic, handler);
    },
  });
  return [end(0), end(1)];
}
