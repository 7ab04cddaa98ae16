/**
 * Says when a file has changed and then stood still for a moment, so that a slow writer is not read half-way.
 * Change notices of the folder make it quick (a replaced file has a new inode, which a watch on the file
 * would lose); polling makes it sure where notices are lost (network file systems, containers).
 */
import { watch } from 'node:fs';
import type { FSWatcher } from 'node:fs';
import { stat } from 'node:fs/promises';
import { basename, dirname } from 'node:path';

const SETTLE_MS = 250;

/** `changed` runs after each change, deletion included. The returned function stops it. */
export function watchFile(path: string, pollMs: number, changed: () => void): () => void {
  let reported: string | undefined;
  let pending: string | undefined;
  let timer: NodeJS.Timeout | undefined;
  let closed = false;

  const look = async (): Promise<void> => {
    const now = await signature(path);
    if (closed) return;
    reported ??= now;
    if (now === pending && now !== reported) {
      reported = now;
      changed();
    }
    pending = now;
    if (now !== reported) lookSoon();
  };
  const lookSoon = (): void => {
    if (closed || timer !== undefined) return;
    timer = setTimeout(() => {
      timer = undefined;
      void look();
    }, SETTLE_MS);
    timer.unref();
  };

  const poll = setInterval(() => void look(), pollMs);
  poll.unref();
  const watcher = watchFolder(path, lookSoon);
  void look();
  return () => {
    closed = true;
    clearInterval(poll);
    clearTimeout(timer);
    watcher?.close();
  };
}

function watchFolder(path: string, notice: () => void): FSWatcher | undefined {
  try {
    const name = basename(path);
    const watcher = watch(dirname(path), { persistent: false }, (_event, changedName) => {
      if (changedName === null || changedName === name) notice();
    });
    watcher.on('error', () => watcher.close());
    return watcher;
  } catch {
    // No such folder, or no notices to be had: polling goes on.
    return undefined;
  }
}

async function signature(path: string): Promise<string> {
  try {
    const { mtimeMs, size, ino } = await stat(path);
    return `${mtimeMs}:${size}:${ino}`;
  } catch {
    return 'absent';
  }
}
