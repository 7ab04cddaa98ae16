/** A name server on loopback, over UDP, that answers A, AAAA and PTR as a test tells it (RFC 1035). */
import { createSocket, type Socket } from 'node:dgram';
import { once } from 'node:events';
import { isIPv4, isIPv6 } from 'node:net';

const TYPE_A = 1;
const TYPE_PTR = 12;
const TYPE_AAAA = 28;

export class DnsServer {
  /**
   * Addresses by name, lower case; names by `4.3.2.1.in-addr.arpa`. A name that is not there does not exist.
   */
  readonly records = new Map<string, readonly string[]>();
  /** `broken`: SERVFAIL; `silent`: no answer at all. */
  mode: 'answers' | 'broken' | 'silent' = 'answers';
  /** Names about which it is silent in any mode. */
  readonly silentAbout = new Set<string>();
  queries = 0;
  private readonly socket: Socket = createSocket('udp4');

  static async start(): Promise<DnsServer> {
    const server = new DnsServer();
    server.socket.on('message', (query, from) => {
      server.queries += 1;
      const isSilent = server.mode === 'silent' || server.silentAbout.has(nameIn(query));
      if (!isSilent) server.socket.send(server.reply(query), from.port, from.address);
    });
    server.socket.bind(0, '127.0.0.1');
    await once(server.socket, 'listening');
    return server;
  }

  get address(): string {
    return `127.0.0.1:${this.socket.address().port}`;
  }

  close(): void {
    this.socket.close();
  }

  private reply(query: Buffer): Buffer {
    const name = nameIn(query);
    const at = 13 + name.length;
    const type = query.readUInt16BE(at + 1);
    const question = query.subarray(12, at + 5);
    const known = this.records.get(name);
    const wanted = this.mode === 'broken' ? [] : (known ?? []).filter((ip) => typeOf(ip) === type);
    const code = this.mode === 'broken' ? 2 : known === undefined ? 3 : 0;
    const head = Buffer.alloc(12);
    query.copy(head, 0, 0, 2);
    head.writeUInt16BE(0x8180 | code, 2);
    head.writeUInt16BE(1, 4);
    head.writeUInt16BE(wanted.length, 6);
    return Buffer.concat([head, question, ...wanted.map(record)]);
  }
}

/** Lower case, without a dot at the end. */
function nameIn(query: Buffer): string {
  const labels: string[] = [];
  let at = 12;
  for (let length = query[at]!; length > 0; length = query[at]!) {
    labels.push(query.toString('latin1', at + 1, at + 1 + length));
    at += length + 1;
  }
  return labels.join('.').toLowerCase();
}

const typeOf = (value: string): number => (isIPv6(value) ? TYPE_AAAA : isIPv4(value) ? TYPE_A : TYPE_PTR);

/** The name as a pointer to the question, class IN, TTL 1 s. */
function record(ip: string): Buffer {
  const data = bytesOf(ip);
  const head = Buffer.from([0xc0, 0x0c, 0, typeOf(ip), 0, 1, 0, 0, 0, 1, 0, data.length]);
  return Buffer.concat([head, data]);
}

function bytesOf(ip: string): Buffer {
  if (typeOf(ip) === TYPE_PTR) {
    const labels = ip.split('.').map((label) => String.fromCharCode(label.length) + label);
    return Buffer.from(`${labels.join('')}\0`, 'latin1');
  }
  if (!isIPv6(ip)) return Buffer.from(ip.split('.').map(Number));
  const [left = '', right = ''] = ip.split('::');
  const groups = (text: string): number[] => (text === '' ? [] : text.split(':').map((x) => parseInt(x, 16)));
  const [before, after] = [groups(left), groups(right)];
  const all = [...before, ...new Array<number>(8 - before.length - after.length).fill(0), ...after];
  return Buffer.from(all.flatMap((group) => [group >> 8, group & 255]));
}
