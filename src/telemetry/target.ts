/**
 * Where log bytes go: a file that may be rotated, or standard output. A pipe or socket is written without
 * blocking: a blocking write to a reader that stopped holds a thread for ever and the process at its exit
 * (the thread pool is joined). Writes to one are at most PIPE_BUF long, so that workers that share it never
 * mix lines.
 */
import { close, fstat, fstatSync, open, stat, write } from 'node:fs';
import { Socket } from 'node:net';
import { promisify } from 'node:util';

const openFile = promisify(open);
const closeFile = promisify(close);
const statFile = promisify(stat);
const fstatFile = promisify(fstat);

const FILE_BATCH_BYTES = 256 * 1024;
const PIPE_BUF_BYTES = 4096;
const ROTATION_CHECK_MS = 2_000;

export type Target = {
  /** Most bytes that one write should carry; a single longer line goes alone. */
  readonly batchBytes: number;
  /** Bytes taken, possibly fewer than given. Rejects with the system's error. */
  write(bytes: Buffer): Promise<number>;
  /** The next write goes to a file opened anew. */
  reopen(): void;
  close(): Promise<void>;
};

/** Appends; follows rotation (another inode under the name, or none) within two seconds. */
export function fileTarget(file: string, nowMs: () => number): Target {
  let fd: number | undefined;
  let stale = false;
  let checkedMs = 0;

  const current = async (): Promise<number> => {
    if (fd !== undefined && !stale && nowMs() - checkedMs > ROTATION_CHECK_MS) {
      checkedMs = nowMs();
      const [here, there] = await Promise.all([fstatFile(fd), statFile(file).catch(() => undefined)]);
      stale = there === undefined || there.ino !== here.ino || there.dev !== here.dev;
    }
    if (stale) await closeFd();
    stale = false;
    fd ??= await openFile(file, 'a', 0o640);
    return fd;
  };
  const closeFd = async (): Promise<void> => {
    const old = fd;
    fd = undefined;
    if (old !== undefined) await closeFile(old).catch(() => undefined);
  };
  return {
    batchBytes: FILE_BATCH_BYTES,
    write: async (bytes) => writeOnce(await current(), bytes),
    reopen: () => void (stale = true),
    close: closeFd,
  };
}

/**
 * `fd` is 1 except in tests. Files and terminals are written as they are, pipes and sockets without blocking.
 */
export function streamTarget(fd: number): Target {
  const kind = kindOf(fd);
  if (kind !== 'pipe') {
    const batchBytes = kind === 'file' ? FILE_BATCH_BYTES : PIPE_BUF_BYTES;
    return {
      batchBytes,
      write: (bytes) => writeOnce(fd, bytes),
      reopen() {},
      close: () => Promise.resolve(),
    };
  }
  let socket: Socket | undefined;
  let ended: Error | undefined;
  const connect = (): Socket => {
    const opened = new Socket({ fd, readable: false, writable: true });
    opened.on('error', (error) => (ended = error));
    opened.unref();
    return opened;
  };
  return {
    batchBytes: PIPE_BUF_BYTES,
    write: (bytes) =>
      new Promise((resolve, reject) => {
        if (ended !== undefined) return reject(ended);
        socket ??= connect();
        socket.write(bytes, (error) => (error ? reject(error) : resolve(bytes.length)));
      }),
    reopen() {},
    close: () => Promise.resolve(),
  };
}

function kindOf(fd: number): 'file' | 'pipe' | 'other' {
  try {
    const about = fstatSync(fd);
    return about.isFile() ? 'file' : about.isFIFO() || about.isSocket() ? 'pipe' : 'other';
  } catch {
    return 'other';
  }
}

function writeOnce(fd: number, bytes: Buffer): Promise<number> {
  return new Promise((resolve, reject) => {
    write(fd, bytes, 0, bytes.length, null, (error, count) =>
      error === null ? resolve(count) : reject(error),
    );
  });
}
