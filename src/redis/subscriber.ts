/**
 * A connection of its own that listens to one channel, over reconnects and failovers. Messages can be lost
 * (Redis keeps none for those who are away): whoever listens looks by other means, too.
 */
import { Cluster, Redis } from 'ioredis';
import type { RedisSettings } from './settings.js';

export type Subscriber = Readonly<{
  /** True while it is subscribed, as far as is known; a half-open line is not noticed. */
  listening(): boolean;
  /** Times it subscribed, the first included. */
  subscribed(): number;
  /** Leaves the line and makes a new one: for a listener who learned that messages were missed. */
  renew(): void;
  close(): void;
}>;

const REVIVE_MS = 500;

/** `channel` as it is published to, with any prefix. Begins to connect at once; never throws. */
export function subscribeRedis(
  settings: RedisSettings,
  channel: string,
  onMessage: (text: string) => void,
): Subscriber {
  const { options, nodes, clusterOptions } = settings;
  const line = nodes === undefined ? new Redis(options) : new Cluster([...nodes], clusterOptions);
  let listening = false;
  let subscribed = 0;
  let closed = false;
  let revive: NodeJS.Timeout | undefined;
  line.on('error', () => undefined);
  line.on('message', (from: string, text: string) => {
    if (from === channel) onMessage(text);
  });
  line.on('ready', () => {
    line.subscribe(channel).then(
      () => {
        listening = true;
        subscribed++;
      },
      // No permission, or the line broke again: polling goes on.
      () => undefined,
    );
  });
  line.on('close', () => (listening = false));
  line.on('end', () => {
    if (!closed) revive = setTimeout(() => void line.connect().catch(() => undefined), REVIVE_MS).unref();
  });
  line.connect().catch(() => undefined);
  return {
    listening: () => listening,
    subscribed: () => subscribed,
    renew() {
      listening = false;
      if (!closed) line.disconnect(true);
    },
    close() {
      closed = true;
      clearTimeout(revive);
      line.disconnect();
    },
  };
}
