/**
 * Cuts clients that do not take what is written to them. It looks at the connections from time to time: how
 * many bytes the kernel accepted, and whether some still wait. Nothing is done per request.
 */
import type { Socket } from 'node:net';
import type { ProxyConfig } from './config.js';

/** A client that has taken at least this much since the last look that found progress goes on. */
const PROGRESS_BYTES = 4096;
const LOOKS_PER_DEADLINE = 4;
const LOOK_MS_MIN = 25;
const LOOK_MS_MAX = 5_000;

type Handle = Readonly<{ bytesWritten?: number; writeQueueSize?: number }>;
type Watched = { accepted: number; sinceMs: number };

export type SlowReaders = Readonly<{
  /** `socket` is the TCP connection itself, also under TLS. */
  watch(socket: Socket): void;
  /** Whether the connection (or the one below it, under TLS) was cut here. */
  wasCut(socket: Socket): boolean;
  /** Connections cut so far. */
  cut(): number;
}>;

/** Why the gate cut such a client, for its event. */
export function takesNothing({ timeouts }: Pick<ProxyConfig, 'timeouts'>): string {
  return `the client took nothing for ${timeouts.clientWrite} ms`;
}

/** `deadlineMs` is read at each look: a reload may change it. */
export function createSlowReaders(deadlineMs: () => number): SlowReaders {
  const watched = new Map<Socket, Watched>();
  const ended = new WeakSet<Socket>();
  let cut = 0;
  let timer: NodeJS.Timeout | undefined;

  const look = (): void => {
    const nowMs = performance.now();
    const deadline = deadlineMs();
    for (const [socket, state] of watched) {
      if (!isStuck(socket, state, nowMs) || nowMs - state.sinceMs < deadline) continue;
      cut++;
      ended.add(socket);
      socket.destroy();
    }
    timer = undefined;
    if (watched.size > 0) schedule();
  };
  const schedule = (): void => {
    const ms = Math.min(LOOK_MS_MAX, Math.max(LOOK_MS_MIN, deadlineMs() / LOOKS_PER_DEADLINE));
    timer = setTimeout(look, ms);
    timer.unref();
  };
  return {
    watch(socket) {
      if (socket.destroyed) return;
      watched.set(socket, { accepted: 0, sinceMs: performance.now() });
      socket.once('close', () => watched.delete(socket));
      if (timer === undefined) schedule();
    },
    wasCut: (socket) =>
      ended.has(socket) || ended.has((socket as Socket & { _parent?: Socket })._parent ?? socket),
    cut: () => cut,
  };
}

/** False where nothing waits to be taken, or enough was taken since the last time. */
function isStuck(socket: Socket, state: Watched, nowMs: number): boolean {
  const handle = (socket as unknown as { _handle?: Handle | null })._handle;
  const waiting = handle?.writeQueueSize ?? 0;
  const accepted = (handle?.bytesWritten ?? 0) - waiting;
  if (waiting > 0 && accepted - state.accepted < PROGRESS_BYTES) return true;
  state.accepted = accepted;
  state.sinceMs = nowMs;
  return false;
}
