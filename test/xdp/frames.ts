/** Ethernet frames for tests of the XDP filter, built header by header; checksums are left zero. */

const MAC = Buffer.from('02000000000102000000000a', 'hex');
export const TAG_8021Q = 0x8100;
export const TAG_8021AD = 0x88a8;
export const NEXT = { hop: 0, tcp: 6, udp: 17, routing: 43, fragment: 44, ah: 51, icmp6: 58, options: 60 };

export type Packet = Readonly<{
  /** EtherTypes of VLAN tags, outer first. */
  tags?: readonly number[];
  /** Identifier of every tag; 0: a priority tag, which Linux takes off whatever VLANs there are. */
  vlan?: number;
  /** Source address; the family follows from it. Without one the payload is not IP. */
  from?: string;
  etherType?: number;
  /** IPv4: bytes of options, a multiple of 4. */
  options?: number;
  /** IPv4 only; in units of 8 bytes. */
  fragment?: Readonly<{ offset: number; more: boolean }>;
  /** IPv6 extension headers, outer first; a fragment header says where its piece lies. */
  extensions?: readonly Readonly<{ next: number; bytes?: number; offset?: number }>[];
  hopLimit?: number;
  protocol?: number;
  payload?: Buffer;
}>;

const u16 = (value: number) => Buffer.from([value >> 8, value & 0xff]);

/** TCP flags: 0x02 SYN, 0x10 ACK, 0x12 both. */
export function tcp(flags: number): Buffer {
  const header = Buffer.alloc(20);
  header.writeUInt16BE(40000, 0);
  header.writeUInt16BE(443, 2);
  header[12] = 0x50;
  header[13] = flags;
  return header;
}

export const SYN = tcp(0x02);
export const ACK = tcp(0x10);
export const UDP = Buffer.from('9c4001bb00080000', 'hex');

/** The 16 bytes of an IPv6 address in text form, without embedded IPv4. */
function v6Bytes(address: string): Buffer {
  const [head = '', tail] = address.split('::');
  const groups = (part: string) => (part === '' ? [] : part.split(':'));
  const [before, after] = [groups(head), groups(tail ?? '')];
  const zeros = tail === undefined ? [] : Array<string>(8 - before.length - after.length).fill('0');
  return Buffer.concat([...before, ...zeros, ...after].map((group) => u16(parseInt(group, 16))));
}

function v4Header(packet: Packet, from: string, payload: Buffer): Buffer {
  const options = packet.options ?? 0;
  const header = Buffer.alloc(20 + options, 1);
  header[0] = 0x40 | (5 + options / 4);
  header.writeUInt16BE(header.length + payload.length, 2);
  const { offset, more } = packet.fragment ?? { offset: 0, more: false };
  header.writeUInt16BE(offset | (more ? 0x2000 : 0), 6);
  header[8] = 64;
  header[9] = packet.protocol ?? NEXT.tcp;
  Buffer.from(from.split('.').map(Number)).copy(header, 12);
  Buffer.from([192, 0, 2, 1]).copy(header, 16);
  return header;
}

function extensionHeaders(packet: Packet): Buffer {
  const list = packet.extensions ?? [];
  return Buffer.concat(
    list.map(({ next, bytes = 8, offset = 0 }, index) => {
      const header = Buffer.alloc(next === NEXT.fragment ? 8 : bytes);
      header[0] = list[index + 1]?.next ?? packet.protocol ?? NEXT.tcp;
      header[1] = next === NEXT.fragment ? 0 : next === NEXT.ah ? bytes / 4 - 2 : bytes / 8 - 1;
      if (next === NEXT.fragment) header.writeUInt16BE(offset << 3, 2);
      return header;
    }),
  );
}

function v6Header(packet: Packet, from: string, payload: Buffer): Buffer {
  const extensions = extensionHeaders(packet);
  const header = Buffer.alloc(8);
  header[0] = 0x60;
  header.writeUInt16BE(extensions.length + payload.length, 4);
  header[6] = packet.extensions?.[0]?.next ?? packet.protocol ?? NEXT.tcp;
  header[7] = packet.hopLimit ?? 64;
  return Buffer.concat([header, v6Bytes(from), v6Bytes('2001:db8:ffff::1'), extensions]);
}

/** The whole frame, from the destination's hardware address to the end of the payload. */
export function frame(packet: Packet): Buffer {
  const { from, tags = [], payload = SYN } = packet;
  const isV6 = from?.includes(':') === true;
  const type = packet.etherType ?? (from === undefined ? 0x0806 : isV6 ? 0x86dd : 0x0800);
  const types = [...tags, type];
  const tagged = types.slice(1).flatMap((next, index) => [u16(packet.vlan ?? 100 + index), u16(next)]);
  const link = [MAC, u16(types[0]!), ...tagged];
  if (from === undefined) return Buffer.concat([...link, payload]);
  const header = isV6 ? v6Header(packet, from, payload) : v4Header(packet, from, payload);
  return Buffer.concat([...link, header, payload]);
}

/** Bytes of the frame up to the end of the fixed IP header, from which on the filter knows the source. */
export function knownFrom(packet: Packet): number {
  const ip = packet.from?.includes(':') === true ? 40 : 20;
  return 14 + 4 * (packet.tags?.length ?? 0) + ip;
}
