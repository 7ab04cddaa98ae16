/**
 * A client that closes its side in order may only have finished sending, or be gone: TCP does not tell. It
 * may go on reading while something is written to it; after a silence it is cut, which frees its place at
 * the origin.
 */
import type { Socket } from 'node:net';

type Handle = Readonly<{ writeQueueSize?: number }>;

/**
 * `socket` is the one that speaks HTTP (under TLS the inner one). `graceMs` is read when the client's side
 * ends: the longest silence from then on. A client that still has to take what was written is left to the
 * deadline for slow readers; one that is gone refuses it with a reset.
 */
export function cutWhenSilent(socket: Socket, graceMs: () => number): void {
  socket.once('end', () => {
    if (socket.destroyed) return;
    let written = socket.bytesWritten;
    const timer = setInterval(() => {
      const handle = (socket as unknown as { _handle?: Handle | null })._handle;
      const waits = (handle?.writeQueueSize ?? 0) > 0;
      if (!waits && socket.bytesWritten === written) socket.destroy();
      else written = socket.bytesWritten;
    }, graceMs());
    timer.unref();
    socket.once('close', () => clearInterval(timer));
  });
}
