/**
 * PROXY protocol v1 and v2 (haproxy, doc/proxy-protocol.txt): the address of the client in front of a TCP
 * load balancer. Read before the first HTTP byte, bounded in size and time; anything else closes the
 * connection.
 */
import { isIP, type Socket } from 'node:net';

export type ProxyHeader =
  | Readonly<{ kind: 'more' }>
  | Readonly<{ kind: 'bad' }>
  /** `address` undefined: LOCAL or UNKNOWN, the peer speaks for itself (health checks). */
  | Readonly<{ kind: 'done'; address: string | undefined; length: number }>;

const V2_SIGNATURE = Buffer.from('\r\n\r\n\0\r\nQUIT\n', 'latin1');
const V1_BYTES_MAX = 107;
const V2_BYTES_MAX = 16 + 2048;
const MORE: ProxyHeader = { kind: 'more' };
const BAD: ProxyHeader = { kind: 'bad' };

/** Never throws. `length` is how many bytes the header takes. */
export function parseProxyHeader(bytes: Buffer): ProxyHeader {
  if (bytes.length === 0) return MORE;
  return bytes[0] === 0x0d ? parseV2(bytes) : parseV1(bytes);
}

function parseV1(bytes: Buffer): ProxyHeader {
  const start = bytes.toString('latin1', 0, Math.min(bytes.length, V1_BYTES_MAX + 1));
  const end = start.indexOf('\r\n');
  if (end < 0) return start.length > V1_BYTES_MAX || !'PROXY '.startsWith(start.slice(0, 6)) ? BAD : MORE;
  const line = start.slice(0, end);
  if (/^PROXY UNKNOWN(?: .*)?$/.test(line)) return { kind: 'done', address: undefined, length: end + 2 };
  const found = /^PROXY TCP[46] ([0-9a-fA-F.:]+) ([0-9a-fA-F.:]+) \d{1,5} \d{1,5}$/.exec(line);
  return found === null || isIP(found[1]!) === 0 ? BAD : { kind: 'done', address: found[1], length: end + 2 };
}

function parseV2(bytes: Buffer): ProxyHeader {
  const known = Math.min(bytes.length, V2_SIGNATURE.length);
  if (!bytes.subarray(0, known).equals(V2_SIGNATURE.subarray(0, known))) return BAD;
  if (bytes.length < 16) return MORE;
  const command = bytes[12]!;
  const family = bytes[13]! >> 4;
  const length = 16 + bytes.readUInt16BE(14);
  if (command >> 4 !== 2 || length > V2_BYTES_MAX) return BAD;
  if (bytes.length < length) return MORE;
  if ((command & 0x0f) === 0) return { kind: 'done', address: undefined, length };
  if ((command & 0x0f) !== 1) return BAD;
  if (family === 1 && length >= 28)
    return { kind: 'done', address: [...bytes.subarray(16, 20)].join('.'), length };
  if (family === 2 && length >= 52) {
    const groups = Array.from({ length: 8 }, (_, index) => bytes.readUInt16BE(16 + index * 2).toString(16));
    return { kind: 'done', address: groups.join(':'), length };
  }
  return family === 0 ? { kind: 'done', address: undefined, length } : BAD;
}

/** Takes the header off a new socket, then hands it on; destroys it where there is none in time. */
export function readProxyHeader(
  socket: Socket,
  waitMs: number,
  done: (address: string | undefined) => void,
): void {
  let bytes: Buffer = Buffer.alloc(0);
  const timer = setTimeout(() => socket.destroy(), waitMs);
  const onError = (): void => void socket.destroy();
  const onReadable = (): void => {
    for (;;) {
      const chunk = socket.read() as Buffer | null;
      if (chunk === null) return;
      bytes = bytes.length === 0 ? chunk : Buffer.concat([bytes, chunk]);
      const found = parseProxyHeader(bytes);
      if (found.kind === 'more') continue;
      clearTimeout(timer);
      socket.off('readable', onReadable);
      socket.off('error', onError);
      if (found.kind === 'bad') return void socket.destroy();
      if (bytes.length > found.length) socket.unshift(bytes.subarray(found.length));
      return done(found.address);
    }
  };
  socket.on('readable', onReadable);
  socket.once('error', onError);
  socket.once('close', () => clearTimeout(timer));
}
