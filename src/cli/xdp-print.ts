/** The state of the kernel filter in lines for a person. */
import type { KernelCounter, KernelStatus } from '../xdp/answers.js';

export type XdpShown = Readonly<{ interface: string; status: KernelStatus | undefined }>;

/** Ends with a newline; counters that are 0 are left out. */
export function printXdpStatus({ interface: iface, status }: XdpShown): string {
  if (status === undefined) return `no filter on ${iface}: \`tidegate xdp --config FILE\` attaches it\n`;
  const { settings, mode } = status;
  const caps = [capOf(settings.packetsPerSecond, 'packets'), capOf(settings.synPerSecond, 'SYNs')].join(', ');
  const lines = [
    `${iface}: ${status.attached ? `attached in ${mode.toUpperCase()} mode` : 'NOT attached, the interface went away'}` +
      (settings.dryRun ? ', DRY RUN: nothing is dropped' : ''),
    `caps of one source: ${caps}`,
    `lists: ${status.bans} bans, ${status.allowed} allowed, ${status.management} management (generation ${status.generation})`,
    `       ${status.refused} refused, ${status.replaced} gave way, ${status.leftOut} found no room`,
    `memory: ${(status.memoryBytes / 1024 ** 2).toFixed(1)} MiB`,
    '',
    ...table(status.counters.filter(({ packets }) => packets > 0)),
  ];
  return `${lines.join('\n')}\n`;
}

const capOf = (most: number, what: string): string =>
  most === 0 ? `no cap on ${what}` : `${most} ${what} a second`;

function table(counters: readonly KernelCounter[]): string[] {
  if (counters.length === 0) return ['no packet yet'];
  const line = (name: string, packets: string, bytes: string): string =>
    `${name.padEnd(30)}${packets.padStart(16)}${bytes.padStart(20)}`;
  return [
    line('verdict', 'packets', 'bytes'),
    ...counters.map(({ group, name, packets, bytes }) =>
      line(`${group} ${name}`, String(packets), String(bytes)),
    ),
  ];
}
